// The text format of the Extreme Classification Repository (docs/reference/formats.md, "Sparse text"): a line of
// counts, then a line of labels and features for each row. Source: Bhatia et al., "The extreme classification
// repository: Multi-label datasets and code", 2016.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "graph/base/result.h"

namespace xrun::runtime {

// The first line: "15539 5000 3993".
struct SparseHeader {
  int64_t rows = 0;
  int64_t features = 0;
  int64_t labels = 0;
};

// Reads the first line; `name` is for messages. Errors: XG0412 it is not three whole numbers, or there are no features.
Result<SparseHeader> parse_sparse_header(std::string_view line, std::string_view name);

// A row: "3,17 0:0.25 4:1". A line without labels begins with a space or with a feature; an empty line is a row without
// both.
struct SparseRow {
  int64_t labels = 0;         // how many there are
  int64_t first = -1;         // the first of them; -1: none
  std::string_view features;  // the rest of the line
};

// Reads the labels of a line without its line break. Errors, without the name of the row: XG0412 a label is not a whole
// number below `labels`.
Result<SparseRow> parse_sparse_row(std::string_view line, int64_t labels);

// Calls use(feature, value) for each pair in `text`, in order. Errors, without the name of the row: XG0412 the text is
// not made of pairs, a feature is not below `features`, or a value is not finite as f32.
Status for_each_sparse_feature(std::string_view text, int64_t features,
                               const std::function<void(int64_t feature, float value)>& use);

}  // namespace xrun::runtime
