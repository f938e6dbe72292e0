// The flag `--rows a..b`.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/result.h"

namespace xrun::cli {

struct RowRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Reads "a..b"; an empty text means all samples. Errors: XG0902 not a range within 0..samples.
Result<RowRange> parse_rows(const std::string& text, int64_t samples);

}  // namespace xrun::cli
