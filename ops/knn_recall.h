// How much of the exact graph of nearest classes (ops/knn.h) given lists have: of the nearest neighbours of 256
// classes, drawn by a seed and compared with all others, the share that their lists name.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/units.h"
#include "ops/isa.h"
#include "ops/knn.h"
#include "ops/knn_shares.h"
#include "ops/workers.h"

namespace xrun::ops {

class KnnRecall {
 public:
  KnnRecall(const KnnShape& shape, uint64_t seed, Isa isa);
  Bytes scratch_bytes() const;
  // From 0 to 1; 1 where no class has neighbours. Allocates nothing. Not for two calls at once with one `scratch`.
  double measure(const float* weight, const int32_t* neighbours, std::byte* scratch, Workers& workers) const;
  // Compares a share of these classes, and gathers what the others have found. Errors: those of `shares`.
  Result<double> measure(const float* weight, const int32_t* neighbours, std::byte* scratch, Workers& workers,
                         KnnShares& shares) const;

 private:
  KnnShape shape_;
  uint64_t seed_;
  Isa isa_;
};

}  // namespace xrun::ops
