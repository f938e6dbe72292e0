#include "ops/head/tree_fold.h"

#include <algorithm>
#include <utility>

namespace xrun::ops {

TreeFold::TreeFold(const HeadLayout& layout, const HeadScratch& at, std::byte* out, std::byte* scratch)
    : layout_(layout),
      out_(out),
      bytes_(at.partial_bytes),
      end_(layout.blocks.end),
      waiting_(reinterpret_cast<Waiting*>(scratch + at.fold)),
      free_(reinterpret_cast<std::byte**>(waiting_ + layout.blocks.size())),
      next_(layout.blocks.begin),
      subtree_(layout.subtrees.data()) {
  std::fill_n(waiting_, layout.blocks.size(), Waiting{});
  for (; free_count_ < layout.partials; ++free_count_) {
    free_[free_count_] = scratch + at.partials + free_count_ * bytes_;
  }
}

TreeFold::Partial TreeFold::take() {
  const std::lock_guard lock(mutex_);
  if (next_ == end_) {
    return {};
  }
  subtree_ += subtree_->end == next_ ? 1 : 0;
  // The first block of a subtree is the left side of all its sums, so it is computed in the output of the subtree.
  std::byte* data = nullptr;
  if (next_ == subtree_->begin) {
    data = out_ + (subtree_ - layout_.subtrees.data()) * bytes_;
  } else if (free_count_ > 0) {
    data = free_[--free_count_];
  } else {
    return {};
  }
  return {.block = next_++, .subtree = subtree_, .data = data};
}

std::byte* TreeFold::find_neighbour(Partial& partial) {
  const std::lock_guard lock(mutex_);
  const int64_t begin = partial.subtree->begin;
  const auto waiting = [&](int64_t block) -> Waiting& { return waiting_[block - layout_.blocks.begin]; };
  for (; int64_t{1} << partial.level < partial.subtree->size(); ++partial.level) {
    const int64_t size = int64_t{1} << partial.level;
    const bool is_right = ((partial.block - begin) & size) != 0;
    const int64_t other = is_right ? partial.block - size : partial.block + size;
    if (other >= partial.subtree->end) {
      continue;  // there are no blocks after the last class
    }
    Waiting& there = waiting(other);
    if (there.data == nullptr || there.level != partial.level) {
      waiting(partial.block) = {partial.data, partial.level};
      return nullptr;
    }
    std::byte* right = std::exchange(there.data, nullptr);
    if (is_right) {
      std::swap(right, partial.data);
      partial.block = other;
    }
    ++partial.level;
    return right;
  }
  return nullptr;
}

void TreeFold::give_back(std::byte* buffer) {
  const std::lock_guard lock(mutex_);
  free_[free_count_++] = buffer;
}

}  // namespace xrun::ops
