// A build of a graph of nearest classes that several processes share out. Each has all class rows and memory for the
// whole; an array is cut into blocks, each process fills the blocks of its share, and `gather` brings the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/head_shape.h"

namespace xrun::ops {

// Threads: one at a time. All shares of a build make the same calls in the same order.
class KnnShares {
 public:
  virtual ~KnnShares() = default;
  virtual int count() const { return 1; }
  virtual int index() const { return 0; }  // this process's share
  // `array` has blocks of `block` bytes, of which the last may be shorter; share i has those of `of(blocks, i)`. Waits
  // until the shares of all are in the array. Errors: those of a share that does not come.
  virtual Status gather(std::span<std::byte> /*array*/, Bytes /*block*/) { return {}; }

  BlockRange of(int64_t blocks, int share) const { return {blocks * share / count(), blocks * (share + 1) / count()}; }
  BlockRange own(int64_t blocks) const { return of(blocks, index()); }
};

}  // namespace xrun::ops
