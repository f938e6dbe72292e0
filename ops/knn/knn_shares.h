// Divides the build of a graph of nearest classes among several processes. Each process has all class rows and memory
// for the whole result. An array is divided into blocks; each process fills the blocks of its share, and `gather` gets
// the blocks of the other shares from the other processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/layouts/head_shape.h"

namespace xrun::ops {

// The processes that share a build; this base class is for a single one. Only one call may run at a time. All shares of
// a build must make the same calls in the same order.
class KnnShares {
 public:
  virtual ~KnnShares() = default;
  virtual int count() const { return 1; }
  virtual int index() const { return 0; }  // the index of this process's share
  // Waits until `array` has the blocks of all shares. A block has `block` bytes, the last one may be shorter; share i
  // fills the blocks of(blocks, i). Errors: a share that does not arrive.
  virtual Status gather(std::span<std::byte> /*array*/, Bytes /*block*/) { return {}; }

  BlockRange of(int64_t blocks, int share) const { return {blocks * share / count(), blocks * (share + 1) / count()}; }
  BlockRange own(int64_t blocks) const { return of(blocks, index()); }
};

}  // namespace xrun::ops
