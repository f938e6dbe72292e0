// Sums in one fixed order: the tree over partials and replicas, and the norm over chunks (docs/determinism.md,
// "Gradient partials" and "Scalars").
#pragma once

#include <cstdint>
#include <span>

namespace xrun::runtime {

// terms[0] = ((t0 + t1) + (t2 + t3)) + ..., elementwise over `count` floats: an aligned binary tree over the index, so
// that a tree over partials that lie on several replicas is the tree over partials, then over replicas. Other terms are
// overwritten.
void fold_tree(std::span<float* const> terms, int64_t count);

// Sum of squares in f64, ascending.
double sum_of_squares(const float* values, int64_t count);

}  // namespace xrun::runtime
