// The values of `--sweep KEY=VALUES` and the range of `--fit KEY=LOW..HIGH` (docs/reference/command/simulate.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/result.h"

namespace xrun::cli {

// The most points of a sweep.
inline constexpr size_t kMostPoints = 256;

struct SweepAxis {
  std::string key;  // the text of the user, or the path of find_key
  std::vector<std::string> values;
};

// Reads "nodes=8,16,32". Commas inside brackets and quotes do not separate values: "network=ethernet(10Gbit/s,
// 50us),none". A value `1..8` stands for 1, 2, ..., 8, and `1..64*2` for 1, 2, 4, ..., 64. Errors: kUsage XG0639 for a
// text of another form, XG0640 for more than kMostPoints values.
Result<SweepAxis> parse_axis(const std::string& text);

// Returns the number of points of the product of all axes. Errors: kUsage XG0640 for more than kMostPoints.
Result<size_t> count_points(const std::vector<SweepAxis>& axes);

// The values of one point of the product; the values of the last axis change fastest. REQUIRES: `point` is less than
// the number of points.
std::vector<std::string> values_at(const std::vector<SweepAxis>& axes, size_t point);

struct FitRange {
  std::string key;
  int64_t low = 1;
  int64_t high = int64_t{1} << 40;
  bool is_given = false;  // whether the text has a range
};

// Reads "batch" or "batch=64..65536". Errors: kUsage XG0639.
Result<FitRange> parse_fit(const std::string& text);

}  // namespace xrun::cli
