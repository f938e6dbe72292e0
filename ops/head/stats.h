// Statistics of rows over a range of classes, stored as planes of f32, and the functions that merge them in the tree
// over class blocks.
#pragma once

#include <cstdint>

#include "graph/layouts/head_shape.h"

namespace xrun::ops {

// View of one partial result: HeadLayout::stat_planes planes of rows_padded elements.
struct HeadStats {
  float* data = nullptr;
  int64_t plane = 0;
  int64_t top_k = 0;

  float* max() const { return data; }                 // max of z = scale · logit; NaNs are ignored
  float* sum() const { return data + plane; }         // sum of exp(z - max); NaN if any logit of the row is NaN
  float* total() const { return data + 2 * plane; }   // sum of the logits, with smoothing
  float* target() const { return data + 3 * plane; }  // the label's logit before the margin, if the range has the label
  float* best(int64_t i = 0) const { return data + (4 + i) * plane; }
  int32_t* best_class(int64_t i = 0) const { return reinterpret_cast<int32_t*>(data + (4 + top_k + i) * plane); }
};

// Computes exp of one number with the same operations as the loops over tiles.
float exp_f32(float x);

// Max and sum of exp(z - max) over a range of classes.
struct ExpSum {
  float max = 0;
  float sum = 0;
};
ExpSum combine(ExpSum left, ExpSum right);

void clear(const HeadStats& stats);
// Merges `right`, which has the higher classes, into `left`, for all rows.
void merge(const HeadStats& left, const HeadStats& right);

}  // namespace xrun::ops
