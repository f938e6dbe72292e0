// Sums of partial results of class blocks in one fixed binary tree (docs/determinism.md,
// "Sums over classes"), each pair added as soon as both
// sides are there. So what waits for its neighbour is little, whatever the number of blocks: the buffers are few and
// go round, and the order in which blocks are finished changes no bit.
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
      // A worker that finds no buffer leaves its blocks to those that hold one: they give some back.
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
  // The sum of 2^level blocks from `block`, or of as many as its subtree has left.
  struct Partial {
    int64_t block = 0;
    int64_t level = 0;
    const BlockRange* subtree = nullptr;
    std::byte* data = nullptr;
  };

  // A partial result without its neighbour; no data: there is none.
  struct Waiting {
    std::byte* data = nullptr;
    int64_t level = 0;
  };
  static_assert(sizeof(Waiting) == kHeadFoldNodeBytes);

  bool left() const { return next_ < end_; }
  // The next block; without data where there is none left, or no buffer for it.
  Partial take();
  // Makes `partial` the left side of the next pair that is whole and returns the right side; null, and `partial` waits,
  // where the neighbour is not there yet.
  std::byte* find_neighbour(Partial& partial);
  void give_back(std::byte* buffer);

  const HeadLayout& layout_;
  std::byte* out_;
  Bytes bytes_;
  int64_t end_;
  std::mutex mutex_;  // of all below
  Waiting* waiting_;  // by block of the shard: what begins there
  std::byte** free_;  // buffers that nobody holds
  int64_t free_count_ = 0;
  int64_t next_;
  const BlockRange* subtree_;  // that has `next_`
};

}  // namespace xrun::ops
