#include "runtime/data/readers/label_numbers.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/units.h"

namespace xrun::runtime {

Status check_label_number(double label, int64_t classes) {
  constexpr double kMost = 9e15;  // below 2^53, so that a double holds every whole number
  if (label != std::floor(label) || std::abs(label) > kMost) {
    return content_error("XG0402", {"the label {} is not a whole number, so it is not the number of a class", label},
                         "number the classes from 0; numbers to be predicted are read as `labels`");
  }
  if (classes > 0 && label >= static_cast<double>(classes)) {
    return content_error(
        "XG0402",
        {"the label {:.0f} does not fit the {} classes of the source", label, format_with_underscores(classes)},
        "give the reader the number of classes, `classes=`, or correct the label");
  }
  return {};
}

Result<int64_t> count_classes(const Attrs& args, int64_t largest_label, int64_t samples, const std::string& path) {
  constexpr int64_t kMostPerSample = 16;
  const int64_t found = largest_label + 1;
  if (args.has("classes")) {
    const int64_t said = args.integer("classes");
    if (found > said) {
      return content_error("XG0402", {"{} has the label {}, but `classes` is {}", path, largest_label, said},
                           {"labels must be 0..{}; or raise `classes`", said - 1});
    }
    return said;
  }
  if (found > kMostPerSample * samples) {
    return content_error("XG0402", {"{} has the label {} among {} samples", path, largest_label, samples},
                         {"if it is right, say how many classes there are: classes={}", found});
  }
  return found;
}

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
