// Sums of partial results of class blocks in one fixed binary tree (docs/internals/determinism.md, "Sums over
// classes"). A pair is added as soon as both sides are complete. So only few partial results wait for their neighbours,
// whatever the number of blocks, and a few buffers suffice. The order in which blocks are finished changes no bit.
#pragma once

#include <mutex>

#include "graph/head_shape.h"
#include "ops/workers.h"

namespace xrun::ops {

// One pass over the class blocks of a shard; used once. Allocates nothing.
class TreeFold {
 public:
  // `out`: a partial result for each subtree, of at.partial_bytes; `scratch` has the layout of `at`.
  TreeFold(const HeadLayout& layout, const HeadScratch& at, std::byte* out, std::byte* scratch);

  // Calls body(block, partial result to write, worker) once for each block, and merge(left, right), which adds right to
  // left, for the pairs of each subtree. Leaves the sums in `out`.
  template <typename Body, typename Merge>
  void run(Workers& workers, const Body& body, const Merge& merge) {
    while (left()) {
      // A worker that finds no free buffer stops; the workers that hold one return it and take the remaining blocks.
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
  // The sum of 2^level blocks from `block` on, or of the remaining blocks of its subtree if these are fewer.
  struct Partial {
    int64_t block = 0;
    int64_t level = 0;
    const BlockRange* subtree = nullptr;
    std::byte* data = nullptr;
  };

  // A partial result that waits for its neighbour; null data: there is no such result.
  struct Waiting {
    std::byte* data = nullptr;
    int64_t level = 0;
  };
  static_assert(sizeof(Waiting) == kHeadFoldNodeBytes);

  bool left() const { return next_ < end_; }
  // Takes the next block; `data` is null if no block, or no buffer for it, is left.
  Partial take();
  // Makes `partial` the left side of its pair and returns the right side. If the neighbour is not complete yet, stores
  // `partial` as waiting and returns null; also null for the sum of a whole subtree.
  std::byte* find_neighbour(Partial& partial);
  void give_back(std::byte* buffer);

  const HeadLayout& layout_;
  std::byte* out_;
  Bytes bytes_;
  int64_t end_;
  std::mutex mutex_;  // guards all below
  Waiting* waiting_;  // index: block of the shard; the result that begins there
  std::byte** free_;  // free buffers
  int64_t free_count_ = 0;
  int64_t next_;
  const BlockRange* subtree_;  // the one that contains block `next_`
};

}  // namespace xrun::ops
