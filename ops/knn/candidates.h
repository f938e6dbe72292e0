// The candidates for the nearest neighbours of each class: lists of fixed capacity that keep the best scores seen so
// far.
#pragma once

#include <cstdint>

namespace xrun::ops {

// Packs a score and a class id into an integer key. Ascending keys are in the order of neighbours: score descending,
// then id ascending.
uint64_t knn_key(float score, int32_t id);
float knn_score(uint64_t key);
inline int32_t knn_id(uint64_t key) { return static_cast<int32_t>(key & 0xFFFFFFFFU); }

// A view of the lists of all classes; it does not own the memory. Only one thread at a time may change the list of a
// class.
struct KnnCandidates {
  uint64_t* keys = nullptr;   // [classes][capacity]: candidates, packed by knn_key
  int32_t* counts = nullptr;  // [classes]: number of candidates; kOverflow: more candidates than fit
  float* limits = nullptr;    // [classes]: limits of the classes; lower scores are not candidates
  int64_t capacity = 0;       // capacity of a list, at least wanted + 1
  int64_t wanted = 0;         // number of neighbours in addition to the class itself
  // The amount by which the score of a true neighbour may be below the wanted-th best score. If it is 0, scores are
  // exact; of equal scores the smaller ids are kept, so that no list overflows.
  float slack = 0;

  static constexpr int32_t kOverflow = -1;

  void clear(int64_t row) const;
  // Sets the initial limit of a class. REQUIRES: at least `wanted` different classes have scores of at least `score`.
  void seed(int64_t row, float score) const;
  // Adds a candidate. REQUIRES: score >= limits[row].
  void offer(int64_t row, float score, int32_t id) const;
  // Drops entries that are no longer candidates, and raises the limit.
  void shrink(int64_t row) const;
};

}  // namespace xrun::ops
