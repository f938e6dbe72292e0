// Selects the elements of a tensor with the largest magnitudes, exactly, by counting:
// 1. Each chunk of the tensor counts its elements by the highest bits of their magnitudes. The sums of the counts over
//    all chunks determine these bits of the k-th largest magnitude.
// 2. The middle bits and then the lowest bits of the k-th magnitude are determined in the same way.
// 3. Each chunk writes its own part of the result.
// This reads the values five times. If only few elements are selected, a sample first gives a lower bound for the k-th
// magnitude, and only the elements above the bound are counted, so the values are read twice. If fewer than k elements
// are above the bound, or too many, all elements are counted.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/layouts/compression.h"
#include "ops/workers.h"

namespace xrun::ops {

// Selects elements and owns the working memory for it, which is allocated once. Only one selection may run at a time.
class TopK {
 public:
  // `most` is the largest number of elements of a tensor, `workers` the largest number of workers. Selections of up to
  // `few` elements use samples; these take 16 * few bytes more.
  TopK(int64_t most, int workers, int64_t few = 0);

  // Writes the k elements of values[0, count) with the largest magnitudes to `pairs`, in ascending order of their
  // indices. Of equal magnitudes, the lower index is selected first; NaN counts as larger than any number. The result
  // does not depend on the workers. REQUIRES: 0 < k <= count, and at most as many elements and workers as the
  // constructor was given.
  void select(const float* values, int64_t count, int64_t k, GradientPair* pairs, Workers& workers);

 private:
  // First the number of elements of a chunk above the k-th largest magnitude and the number equal to it; later the
  // places in the result where they begin.
  struct ChunkCounts {
    int64_t above = 0;
    int64_t equal = 0;
  };

  template <class View>
  uint32_t find_kth(const View& view, int64_t& left, Workers& workers, size_t runs);
  template <class View>
  void select_from(const View& view, int64_t k, GradientPair* pairs, Workers& workers);
  int64_t find_candidates(const float* values, int64_t count, int64_t k, Workers& workers);

  std::vector<uint32_t> bins_;  // counts for each value of the bits, for each worker
  std::vector<ChunkCounts> chunks_;
  std::vector<GradientPair> candidates_;
};

}  // namespace xrun::ops
