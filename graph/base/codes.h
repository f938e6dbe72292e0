// The catalogue of diagnostic codes, of all rooms: a page for each, from docs/reference/codes.md, whose text is part of
// the binary. Codes are stable for ever. A test of tests/house holds the pages to the codes that the sources give.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace xrun {

// Views of the catalogue's text. The examples are whole files of the language; codes that only a running command gives
// have none.
struct CodePage {
  std::string_view code;   // "XG0301"
  std::string_view title;  // "tensors of different shapes"
  std::string_view text;   // what it means and what to do; lines end where the document's do
  std::string_view wrong;  // a text for which `check` gives the code
  std::string_view right;  // the same text, corrected
};

// All pages, by code.
std::vector<CodePage> code_pages();
std::optional<CodePage> find_code(std::string_view code);

}  // namespace xrun
