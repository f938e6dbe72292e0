// Gathered rows in the form of head passes: normalised, rounded, padded block by block and packed for both products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/head_shape.h"
#include "ops/head.h"

namespace xrun::ops {

// The place of a row among the padded ones: every row block starts at a multiple of row_block_padded.
inline int64_t padded_row(const HeadShape& shape, const HeadLayout& layout, int64_t row) {
  return row / shape.norm_rows * layout.row_block_padded + row % shape.norm_rows;
}
// The row at a padded place, or -1.
inline int64_t row_at(const HeadShape& shape, const HeadLayout& layout, int64_t padded) {
  const int64_t inside = padded % layout.row_block_padded;
  const int64_t row = padded / layout.row_block_padded * shape.norm_rows + inside;
  return inside < shape.norm_rows && row < shape.rows ? row : -1;
}

// Element of a feature row, f32 or bf16.
float feature_at(const HeadShape& shape, const std::byte* features, int64_t row, int64_t d);
// 1 / max(norm, eps), in f64 and rounded once.
double exact_inverse_norm_of_row(const HeadShape& shape, const std::byte* features, int64_t row);
float inverse_norm_of_row(const HeadShape& shape, const std::byte* features, int64_t row);

// Packs the padded rows [begin, end) (whole panels of 32) as operands of kernels with or without `pairs`.
//   logit_rows     [rows / 32][steps][32], steps over dims
//   gradient_rows  [dim / 32][steps][32], steps over rows; null: not wanted
void pack_rows(const HeadShape& shape, const HeadLayout& layout, bool pairs, const std::byte* features, int64_t begin,
               int64_t end, uint32_t* logit_rows, uint32_t* gradient_rows);

}  // namespace xrun::ops
