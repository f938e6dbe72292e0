// The fold of partial results over class blocks in one fixed binary tree: inside a task on a stack, and then over the
// tasks of each subtree (docs/determinism.md, "Sums over classes").
#pragma once

#include "ops/head.h"

namespace xrun::ops {

// Runs body(block, partial result of the block) for the blocks of a task and leaves their sum in `out`.
//   partial(i)  place of the i-th partial result on the stack; 0 is the task's own
template <typename Partial, typename Body, typename Merge>
void fold_blocks(BlockRange task, const Partial& partial, const Body& body, const Merge& merge) {
  int depth = 0;
  for (int64_t block = task.begin; block < task.end; ++block) {
    body(block, partial(depth));
    ++depth;
    for (int64_t done = block - task.begin + 1; done % 2 == 0; done /= 2) {
      --depth;
      merge(partial(depth - 1), partial(depth));
    }
  }
  for (; depth > 1; --depth) {
    merge(partial(depth - 2), partial(depth - 1));
  }
}

// Adds up the tasks of each subtree in the order of the tree; `place(i)` is the result of task i.
template <typename Place, typename Merge>
void fold_tasks(const HeadLayout& layout, const Place& place, const Merge& merge) {
  size_t begin = 0;
  for (const BlockRange& subtree : layout.subtrees) {
    size_t end = begin;
    while (end < layout.tasks.size() && layout.tasks[end].end <= subtree.end) {
      ++end;
    }
    for (size_t step = 1; step < end - begin; step *= 2) {
      for (size_t i = begin; i + step < end; i += 2 * step) {
        merge(place(i), place(i + step));
      }
    }
    begin = end;
  }
}

// Where the result of each task lies: the first of a subtree has the subtree's own place in the pass's output.
struct TaskPlaces {
  const HeadLayout& layout;
  std::byte* out;
  std::byte* others;
  Bytes bytes;

  std::byte* operator()(size_t task) const {
    size_t subtree = 0;
    while (layout.subtrees[subtree].end <= layout.tasks[task].begin) {
      ++subtree;
    }
    const bool first = layout.subtrees[subtree].begin == layout.tasks[task].begin;
    return first ? out + static_cast<Bytes>(subtree) * bytes : others + static_cast<Bytes>(task - subtree - 1) * bytes;
  }
};

}  // namespace xrun::ops
