// The candidates of each class for its nearest neighbours: lists of fixed capacity that keep the best scores seen.
#pragma once

#include <cstdint>

namespace xrun::ops {

// Scores as integers whose ascending order is that of neighbours: score descending, then id ascending.
uint64_t knn_key(float score, int32_t id);
float knn_score(uint64_t key);
inline int32_t knn_id(uint64_t key) { return static_cast<int32_t>(key & 0xFFFFFFFFU); }

// A view of the lists of all classes; it owns nothing. One thread at a time for each class.
struct KnnCandidates {
  uint64_t* keys = nullptr;   // [classes][capacity]
  int32_t* counts = nullptr;  // [classes]; kOverflow: more candidates than fit
  float* limits = nullptr;    // [classes]; a score below it is no candidate
  int64_t capacity = 0;       // at least wanted + 1
  int64_t wanted = 0;         // neighbours in addition to the class itself
  // The amount by which a true neighbour's score may be below the wanted-th best one. 0: scores are exact, and among
  // equal scores the smaller ids are kept, so that no list overflows.
  float slack = 0;

  static constexpr int32_t kOverflow = -1;

  void clear(int64_t row) const;
  // REQUIRES: wanted distinct classes have scores of at least `score`.
  void seed(int64_t row, float score) const;
  // Adds a candidate. REQUIRES: score >= limits[row].
  void offer(int64_t row, float score, int32_t id) const;
  // Drops entries that are no longer candidates, and raises the limit.
  void shrink(int64_t row) const;
};

}  // namespace xrun::ops
