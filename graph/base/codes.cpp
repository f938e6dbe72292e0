// Finds the pages in the text of the catalogue, which has this form:
//   page = "## " code " " title NL paragraphs [ "```xgraph wrong" NL lines "```" "```xgraph right" NL lines "```" ] ;
// A line that starts with "# " is the name of an area of codes; it ends the page before it.
#include "graph/base/codes.h"

#include <algorithm>
#include <string>

#include "graph/base/codes_text.h"

namespace xrun {
namespace {

constexpr std::string_view kCode = "## XG";
constexpr std::string_view kArea = "\n# ";
constexpr size_t kCodeLength = 6;  // "XG0301"

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of('\n'), text.size());
  const size_t end = text.find_last_not_of('\n') + 1;
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

// The lines between "```xgraph KIND" and "```"; empty if there is no such block.
std::string_view block_of(std::string_view page, std::string_view opening) {
  const size_t at = page.find(opening);
  if (at == std::string_view::npos) {
    return {};
  }
  const size_t begin = at + opening.size();
  return page.substr(begin, page.find("\n```", begin) + 1 - begin);
}

// Reads one page. `page` starts with its heading and ends before the next heading.
CodePage read(std::string_view page) {
  const size_t line = page.find('\n');
  const std::string_view heading = page.substr(3, line - 3);
  const size_t end = std::min(page.find("\n```"), page.find(kArea));
  return {.code = heading.substr(0, kCodeLength),
          .title = heading.substr(kCodeLength + 1),
          .text = trimmed(page.substr(line, end - line)),
          .wrong = block_of(page, "```xgraph wrong\n"),
          .right = block_of(page, "```xgraph right\n")};
}

}  // namespace

std::vector<CodePage> code_pages() {
  const std::string_view text = codes_text();
  std::vector<CodePage> pages;
  for (size_t at = text.find(kCode), next; at != std::string_view::npos; at = next) {
    next = text.find(kCode, at + 1);
    pages.push_back(read(text.substr(at, next - at)));
  }
  std::ranges::sort(pages, {}, &CodePage::code);
  return pages;
}

std::optional<CodePage> find_code(std::string_view code) {
  const std::string_view text = codes_text();
  const size_t at = code.size() == kCodeLength ? text.find("## " + std::string(code) + " ") : std::string_view::npos;
  return at == std::string_view::npos ? std::nullopt
                                      : std::optional(read(text.substr(at, text.find(kCode, at + 1) - at)));
}

}  // namespace xrun
