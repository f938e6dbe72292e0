#include "runtime/cli/sources/row_range.h"

#include <optional>

#include "graph/base/errors.h"
#include "runtime/cli/console/counts.h"

namespace xrun::cli {

Result<RowRange> parse_rows(const std::string& text, int64_t samples) {
  RowRange range{0, samples};
  if (text.empty()) {
    return range;
  }
  const size_t dots = text.find("..");
  const bool has_dots = dots != std::string::npos;
  const auto begin = has_dots ? parse_count(text.substr(0, dots)) : std::nullopt;
  const auto end = has_dots ? parse_count(text.substr(dots + 2)) : std::nullopt;
  range = {begin.value_or(0), end.value_or(0)};
  if (!begin || !end || range.begin < 0 || range.begin >= range.end || range.end > samples) {
    return usage_error("XG0902", {"`--rows {}` is not a range a..b within 0..{}", text, samples},
                       "write it as --rows 0..8");
  }
  return range;
}

}  // namespace xrun::cli
