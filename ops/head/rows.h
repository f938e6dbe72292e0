// The gathered rows as head passes read them: normalised, rounded, padded at the end of each row block, and packed as
// operands of both products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/layouts/head_shape.h"
#include "ops/head/head.h"

namespace xrun::ops {

// Returns the index of a row after padding: every row block starts at a multiple of row_block_padded.
inline int64_t padded_row(const HeadShape& shape, const HeadLayout& layout, int64_t row) {
  return row / shape.norm_rows * layout.row_block_padded + row % shape.norm_rows;
}
// Returns the row with this index after padding, or -1 for padding.
inline int64_t row_at(const HeadShape& shape, const HeadLayout& layout, int64_t padded) {
  const int64_t inside = padded % layout.row_block_padded;
  const int64_t row = padded / layout.row_block_padded * shape.norm_rows + inside;
  return inside < shape.norm_rows && row < shape.rows ? row : -1;
}

// Reads one element of a feature row, f32, bf16 or f16.
float feature_at(const HeadShape& shape, const std::byte* features, int64_t row, int64_t d);
// Returns x as products read it: rounded to bf16 or f16 if the shape says so.
float rounded_operand(const HeadShape& shape, float x);
// Return 1 / max(norm, eps) of a feature row, computed in f64; the second function rounds the result to f32.
double exact_inverse_norm_of_row(const HeadShape& shape, const std::byte* features, int64_t row);
float inverse_norm_of_row(const HeadShape& shape, const std::byte* features, int64_t row);

// Packs the padded rows [begin, end), which are whole panels of 32, as operands of kernels with or without `pairs`.
//   logit_rows     operand for the logits, [rows / 32][steps][32], steps over the dimensions
//   gradient_rows  operand for dW, [dim / 32][steps][32], steps over the rows; null: not packed
void pack_rows(const HeadShape& shape, const HeadLayout& layout, bool pairs, const std::byte* features, int64_t begin,
               int64_t end, uint32_t* logit_rows, uint32_t* gradient_rows);

}  // namespace xrun::ops
