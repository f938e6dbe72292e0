// The catalogue of diagnostic codes: a page for each, from graph/base/codes.md, whose text is part of the binary.
// Codes never change their meaning. A test in tests/repo compares the pages with the codes in the sources.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace xrun {

// One page of the catalogue. The fields are views of the catalogue's text. The examples are whole files of the
// language; codes that only a running command reports have no examples.
struct CodePage {
  std::string_view code;   // "XG0301"
  std::string_view title;  // "tensors of different shapes"
  std::string_view text;   // meaning and remedy, with the line breaks of codes.md
  std::string_view wrong;  // a text for which `xrun check` reports the code
  std::string_view right;  // the same text, corrected
};

// All pages, by code.
std::vector<CodePage> code_pages();
std::optional<CodePage> find_code(std::string_view code);

}  // namespace xrun
