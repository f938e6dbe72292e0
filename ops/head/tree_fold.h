// Sums the partial results of class blocks in one fixed binary tree (docs/internals/determinism.md, "Sums over
// classes"). Two results are added as soon as both sides of a pair are complete. Therefore only a few partial results
// wait for their neighbours, whatever the number of blocks, and a few buffers suffice. The bits do not depend on the
// order in which blocks are finished.
#pragma once

#include <mutex>

#include "graph/layouts/head_shape.h"
#include "ops/workers.h"

namespace xrun::ops {

// One pass over the class blocks of a shard. An object is used for one pass only. Allocates nothing.
class TreeFold {
 public:
  // `out` has space for a partial result of at.partial_bytes for each subtree; `scratch` has the layout `at`.
  TreeFold(const HeadLayout& layout, const HeadScratch& at, std::byte* out, std::byte* scratch);

  // Calls body(block, partial result to write, worker) once for each block, and merge(left, right), which must add
  // right to left, for each pair of the tree. At the end `out` has the sum of each subtree.
  template <typename Body, typename Merge>
  void run(Workers& workers, const Body& body, const Merge& merge) {
    while (left()) {
      // A worker that finds no free buffer stops. The workers that hold buffers return them and take the remaining
      // blocks.
      workers.for_each(workers.count(), [&](int64_t, int worker) {
        for (Partial partial = take(); partial.data != nullptr; partial = take()) {
          body(partial.block, partial.data, worker);
          while (std::byte* const right = find_neighbour(partial)) {
            merge(partial.data, right);
            give_back(right);
          }
        }
      });
    }
  }

 private:
  // The sum of the 2^level blocks from `block` on, or of fewer blocks at the end of a subtree.
  struct Partial {
    int64_t block = 0;
    int64_t level = 0;
    const BlockRange* subtree = nullptr;
    std::byte* data = nullptr;
  };

  // A partial result that waits for its neighbour; `data` is null if no result waits.
  struct Waiting {
    std::byte* data = nullptr;
    int64_t level = 0;
  };
  static_assert(sizeof(Waiting) == kHeadFoldNodeBytes);

  bool left() const { return next_ < end_; }
  // Takes the next block; `data` of the result is null if there is no block left, or no buffer for it.
  Partial take();
  // Makes `partial` the left side of its pair and returns the right side. Returns null if the neighbour is not
  // complete, in which case `partial` is stored as waiting, or if `partial` is the sum of a whole subtree.
  std::byte* find_neighbour(Partial& partial);
  void give_back(std::byte* buffer);

  const HeadLayout& layout_;
  std::byte* out_;
  Bytes bytes_;
  int64_t end_;
  std::mutex mutex_;  // guards all members below
  Waiting* waiting_;  // for each block of the shard: the waiting result that begins with this block
  std::byte** free_;  // free buffers
  int64_t free_count_ = 0;
  int64_t next_;
  const BlockRange* subtree_;  // the subtree that contains block `next_`
};

}  // namespace xrun::ops
