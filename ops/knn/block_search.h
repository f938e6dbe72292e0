// Finds the nearest classes of up to 1,024 class rows at a time. Each row has a list of the best classes among those
// that it was compared with. Scores are the exact scores of ops/knn/knn.h, so a list does not depend on the order of
// the comparisons.
#pragma once

#include <cstdint>
#include <span>

#include "graph/base/units.h"
#include "graph/layouts/head_shape.h"
#include "graph/layouts/knn_cells_layout.h"
#include "ops/head/loops/kernels.h"
#include "ops/knn/candidates.h"
#include "ops/knn/scan.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

// Directions of classes, packed as right side of matrix products: panels [dim_padded][32]. The place of a class is its
// column, counted over all panels.
struct KnnPanels {
  const uint32_t* data = nullptr;
  const int32_t* ids = nullptr;  // class at each place; null: the place is the number of the class
};

// Works in memory provided by the caller; used by one worker at a time. Allocates nothing.
class KnnBlockSearch {
 public:
  // `wanted` is the number of classes in a list, at most `most`. The memory has KnnSearchLayout(dim, most).total bytes;
  // rows and lists that it already holds do not change.
  KnnBlockSearch(Isa isa, int64_t dim, int64_t wanted, int64_t most, std::byte* memory);

  // Empties the lists of the first `rows` rows.
  void clear(int64_t rows);
  // Returns the address at which the caller must write the direction of row i, with zeros after its last dimension.
  // Class `id` is left out of the row's list; if `id` is -1, no class is left out.
  float* put(int64_t i, int32_t id);

  // Compares the given rows with the classes at `places`.
  void compare(std::span<const int32_t> rows, const KnnPanels& classes, ClassRange places);

  // Returns the list of row i as keys (ops/knn/candidates.h), best first. It is shorter than `wanted` if the row was
  // compared with fewer classes.
  std::span<const uint64_t> best(int64_t i);

 private:
  const HeadKernels& kernels_;
  KnnScan scan_;
  int64_t dim_padded_;
  float* directions_;  // [kKnnSearchRows][dim_padded]: directions of the rows
  float* left_;        // packed rows that are being compared
  float* tile_;
  int32_t* hits_;
  int32_t* own_;  // [kKnnSearchRows]: the class that is left out of the row's list; -1: no class
  KnnCandidates lists_;
};

}  // namespace xrun::ops
