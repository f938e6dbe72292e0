#include "runtime/data/readers/label_counts.h"

#include <algorithm>

#include "graph/base/errors.h"
#include "graph/base/units.h"
#include "runtime/data/readers/label_numbers.h"

namespace xrun::runtime {

Result<int64_t> count_label_classes(const Attrs& args, std::span<const int32_t> labels, const std::string& path) {
  const int64_t largest = labels.empty() ? -1 : std::max<int64_t>(*std::ranges::max_element(labels), -1);
  return count_classes(args, largest, std::ssize(labels), path);
}

int64_t count_label_gap(std::span<const int32_t> labels, int64_t classes) {
  std::vector<bool> seen(static_cast<size_t>(classes));
  for (const int32_t label : labels) {
    if (label >= 0) {
      seen[static_cast<size_t>(label)] = true;
    }
  }
  return std::ranges::count(seen, false);
}

std::vector<Error> gap_warnings(int64_t classes, int64_t gap) {
  if (gap == 0) {
    return {};
  }
  return {content_error(
      "XG0416", {"labels go up to {}, but {} of these classes have no sample", classes - 1, format_count(gap)},
      {"check whether labels count from 0 without gaps; if they are right, write classes={}", classes})};
}

}  // namespace xrun::runtime
