// Class rows as directions: their inverse norms, packed operands of the search, and exact scores.
#pragma once

#include <cstdint>

namespace xrun::ops {

// The class weights [classes, dim] with the inverse norm of each row.
struct KnnRows {
  const float* weight = nullptr;
  const float* inverse = nullptr;  // 0: the direction is 0, whatever the row holds
  int64_t dim = 0;

  // Writes direction[dim].
  void direction(int64_t row, float* out) const;
  // Replaces the scores of `count` keys (ops/knn/candidates.h) by the exact scores of their classes with `direction`.
  void rescore(const float* direction, uint64_t* keys, int64_t count) const;
};

// 1 / max(norm, kHeadEpsilon); 0 for a row with a number that is not finite. Sums in f64, in which no row of finite
// f32 overflows.
float knn_inverse(const float* row, int64_t dim);

// The largest distance by which rounding to bf16 moves a direction, and the largest length of one (Euclidean norms).
struct KnnRounding {
  double moved = 0;
  double longest = 0;

  void take(const KnnRounding& other);
  // A bound for the difference between a score that the search computes and the exact one: rounding of both operands
  // (Cauchy-Schwarz), and of the sums on both sides.
  double error(int64_t dim) const;
};

// Writes a direction as column `lane` of a panel [steps][32] of the right side of a product: an element is one f32, or
// with `pairs` two neighbouring bf16. `direction` has an even number of elements, zeros after the last.
void knn_pack_f32(const float* direction, int64_t dim_padded, int64_t lane, uint32_t* panel);
KnnRounding knn_pack_pairs(const float* direction, int64_t dim_padded, int64_t lane, uint32_t* panel);

}  // namespace xrun::ops
