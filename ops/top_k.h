// The elements of a tensor with the largest magnitudes, exactly, by counting: each chunk of the tensor counts its
// elements by their highest bits, the sum of the counts gives these bits of the k-th largest one, and the same is done
// for its middle and its lowest bits. Then each chunk writes its own part of the result. The values are read five
// times. If few of many are selected, a sample bounds the k-th magnitude from below, and the selection is made only
// among elements above the bound: the values are read twice. If fewer than k are above it, or too many, all are
// counted.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/compression.h"
#include "ops/workers.h"

namespace xrun::ops {

// The working memory of selections, created before the first step. Threads: one selection at a time.
class TopK {
 public:
  // For tensors of at most `most` elements, and at most `workers` workers. Selections of up to `few` elements use
  // samples; their candidates take 16 * few bytes.
  TopK(int64_t most, int workers, int64_t few = 0);

  // Writes the k of values[0, count) that are largest in magnitude to `pairs`, in ascending order of their indices.
  // Among equal magnitudes the lower index is chosen first; NaN counts as larger than any number. The result does not
  // depend on the workers. REQUIRES: 0 < k <= count, and not more elements and workers than the constructor was given.
  void select(const float* values, int64_t count, int64_t k, GradientPair* pairs, Workers& workers);

 private:
  // Elements of a chunk above the k-th largest magnitude, and equal to it; then the places where they begin.
  struct ChunkCounts {
    int64_t above = 0;
    int64_t equal = 0;
  };

  template <class View>
  uint32_t find_kth(const View& view, int64_t& left, Workers& workers, size_t runs);
  template <class View>
  void select_from(const View& view, int64_t k, GradientPair* pairs, Workers& workers);
  int64_t find_candidates(const float* values, int64_t count, int64_t k, Workers& workers);

  std::vector<uint32_t> bins_;  // bins of each worker
  std::vector<ChunkCounts> chunks_;
  std::vector<GradientPair> candidates_;
};

}  // namespace xrun::ops
