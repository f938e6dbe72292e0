#include "graph/layouts/knn_layout.h"

#include <algorithm>

namespace xrun {
namespace {

constexpr int64_t kSkew = 32;  // rows of a tile start in different sets of the first-level cache

// Allocates one range after another.
class Ranges {
 public:
  Bytes take(Bytes bytes) {
    const Bytes begin = end_;
    end_ += align_up(bytes);
    return begin;
  }
  Bytes end() const { return end_; }

 private:
  Bytes end_ = 0;
};

}  // namespace

KnnLayout::KnnLayout(const KnnShape& shape, bool in_pairs)
    : pairs(in_pairs),
      block(std::clamp(align_up(shape.classes / 16 + 1, 64), int64_t{64}, kKnnBlock)),
      blocks((shape.classes + block - 1) / block),
      dim_padded(align_up(shape.dim, kKnnPanel)),
      steps(pairs ? dim_padded / 2 : dim_padded),
      // A list that holds all classes never overflows.
      capacity(align_up(std::min(std::max<int64_t>(3 * shape.neighbours, 64), shape.classes + 1), 8)),
      stride(block + kSkew) {
  const int64_t padded = blocks * block;
  Ranges all;
  inverse = all.take(padded * 4);
  limits = all.take((padded + block) * 4);
  counts = all.take(padded * 4);
  again = all.take(pairs ? padded * 4 : 0);
  keys = all.take(shape.classes * capacity * 8);
  panels = all.take(padded * steps * 4);
  workers = all.end();

  Ranges own;
  tile = own.take(kKnnPanel * stride * 4);
  hits = own.take(kKnnPanel * kKnnPanel * 4);
  direction = own.take(dim_padded * 4);
  rounding = own.take(kKnnRoundingBytes);
  left = own.take(pairs ? kKnnAgain * dim_padded * 4 : 0);
  right = own.take(pairs ? block * dim_padded * 4 : 0);
  slice = own.end();
  total = workers + slice * shape.workers;
}

Bytes knn_scratch_bytes(const KnnShape& shape) {
  return std::max(KnnLayout(shape, false).total, KnnLayout(shape, true).total);
}

}  // namespace xrun
