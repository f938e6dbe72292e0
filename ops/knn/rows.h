// Class rows as the search uses them: directions, inverse norms, packed operands, and exact scores.
#pragma once

#include <cstdint>

namespace xrun::ops {

// The class weights [classes, dim] with the inverse norm of each row.
struct KnnRows {
  const float* weight = nullptr;
  const float* inverse = nullptr;  // [classes]; 0 means that the direction is 0, whatever the row contains
  int64_t dim = 0;

  // Writes the direction of a row, [dim], to `out`.
  void direction(int64_t row, float* out) const;
  // Replaces the score in each of `count` keys (ops/knn/candidates.h) by the exact score of its class with `direction`.
  void rescore(const float* direction, uint64_t* keys, int64_t count) const;
};

// Returns 1 / max(norm, kHeadEpsilon), or 0 for a row with a number that is not finite. The sum is f64, so a row of
// finite f32 cannot overflow it.
float knn_inverse(const float* row, int64_t dim);

// Measures how rounding to bf16 changes directions: the largest distance by which a direction moves, and the largest
// length of a direction before rounding (Euclidean norms).
struct KnnRounding {
  double moved = 0;
  double longest = 0;

  void take(const KnnRounding& other);
  // Returns a bound for the difference between a score that the search computes and the exact score. It contains the
  // rounding of both operands (Cauchy-Schwarz) and the rounding of both sums.
  double error(int64_t dim) const;
};

// Writes a direction to column `lane` of a panel [steps][32], for the right side of a matrix product. An element is one
// f32, or in the second function two bf16 that are neighbours. `direction` has an even number of elements, with zeros
// after the last one.
void knn_pack_f32(const float* direction, int64_t dim_padded, int64_t lane, uint32_t* panel);
KnnRounding knn_pack_pairs(const float* direction, int64_t dim_padded, int64_t lane, uint32_t* panel);

}  // namespace xrun::ops
