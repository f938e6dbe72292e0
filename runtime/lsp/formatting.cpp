// Formatting: the canonical layout of `xrun fmt`, as one edit of the lines that change.
#include <algorithm>

#include "lang/format/format.h"
#include "runtime/lsp/features.h"

namespace xrun::lsp {

Json formatting(const Context& context, const Json&) {
  const std::string_view before = context.analysis().text();
  SourceMap sources;
  Diagnostics diagnostics;
  const auto after = lang::format(context.document.path, before, sources, diagnostics);
  Json edits = Json::array();
  if (!after || *after == before) {
    return edits;  // a text that does not parse is not changed
  }
  // The common start and end of both texts are left out of the edit, so that cursors and marks in them keep their
  // places.
  const auto [differs, unused] = std::ranges::mismatch(before, *after);
  size_t begin = static_cast<size_t>(differs - before.begin());
  begin = begin == 0 ? 0 : before.rfind('\n', begin - 1) + 1;
  size_t tail = 0;
  const size_t most = std::min(before.size(), after->size()) - begin;
  while (tail < most && before[before.size() - 1 - tail] == (*after)[after->size() - 1 - tail]) {
    ++tail;
  }
  size_t end = before.size() - tail;
  end = tail == 0 ? end : std::min(before.find('\n', end), before.size() - 1) + 1;
  const size_t kept = before.size() - end;
  edits.push_back(
      {{"range", context.analysis().lines().range(static_cast<uint32_t>(begin), static_cast<uint32_t>(end))},
       {"newText", after->substr(begin, after->size() - kept - begin)}});
  return edits;
}

}  // namespace xrun::lsp
