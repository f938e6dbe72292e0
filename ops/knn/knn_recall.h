// Measures the recall of given lists of neighbours against the exact graph of nearest classes (ops/knn/knn.h). 256
// classes, drawn with a seed, are compared with all others. The recall is the fraction of their true nearest neighbours
// that their lists contain.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/units.h"
#include "ops/knn/knn.h"
#include "ops/knn/knn_shares.h"
#include "ops/simd/isa.h"
#include "ops/workers.h"

namespace xrun::ops {

class KnnRecall {
 public:
  KnnRecall(const KnnShape& shape, uint64_t seed, Isa isa);
  Bytes scratch_bytes() const;
  // Returns the recall, from 0 to 1; it is 1 if no class has neighbours. Allocates nothing. Calls that run at once need
  // different `scratch`.
  double measure(const float* weight, const int32_t* neighbours, std::byte* scratch, Workers& workers) const;
  // Like `measure` above, but does only this process's share of the comparisons and gathers the results of the other
  // shares. Errors: those of `shares`.
  Result<double> measure(const float* weight, const int32_t* neighbours, std::byte* scratch, Workers& workers,
                         KnnShares& shares) const;

 private:
  KnnShape shape_;
  uint64_t seed_;
  Isa isa_;
};

}  // namespace xrun::ops
