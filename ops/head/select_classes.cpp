#include "ops/head/select_classes.h"

#include <algorithm>

#include "graph/base/check.h"
#include "graph/base/random.h"

namespace xrun::ops {
namespace {

constexpr uint64_t kDraw = 0x73656c656374;  // keeps these random numbers apart from others

// The targets of the whole head, each once, ascending; how many.
int64_t distinct_targets(const HeadShape& shape, std::span<const int32_t> labels, int32_t* out) {
  int32_t* const end = std::copy_if(labels.begin(), labels.end(), out,
                                    [&](int32_t label) { return label >= 0 && label < shape.blocks.classes; });
  std::sort(out, end);
  return std::unique(out, end) - out;
}

// `count` different numbers below `below`, ascending; at most half of them, or it would take long to find the last
// ones.
void draw_distinct(const RandomStream& random, int64_t count, int64_t below, int32_t* out) {
  constexpr int64_t kRun = 64;
  uint64_t block = 0;  // of four draws
  for (int64_t found = 0; found < count; found = std::unique(out, out + count) - out) {
    for (int64_t i = found; i < count; i += kRun) {
      uint32_t words[kRun];
      random.fill(block, words);
      block += kRun / 4;
      for (int64_t j = 0; j < std::min(kRun, count - i); ++j) {
        out[i + j] = static_cast<int32_t>((uint64_t{words[j]} * static_cast<uint64_t>(below)) >> 32);
      }
    }
    std::sort(out, out + count);
  }
}

// The classes of one block: `count` targets, and others up to `quota` of the `size` classes from `begin` on. Of those
// that are no targets either the ones to take are drawn or, where they are more than half, the ones to leave out.
void fill_block(const RandomStream& random, ClassRange block, std::span<const int32_t> targets, int64_t quota,
                int32_t* draws, int32_t* set) {
  const int64_t others = block.size() - static_cast<int64_t>(targets.size());
  const int64_t wanted = quota - static_cast<int64_t>(targets.size());
  const bool leave_out = 2 * wanted > others;
  const int64_t drawn = leave_out ? others - wanted : wanted;
  draw_distinct(random, drawn, others, draws);
  size_t before = 0;  // targets that were passed
  // The class of a rank among the others, after the targets below it.
  const auto take = [&](int64_t rank) {
    while (before < targets.size() && targets[before] - block.begin <= rank + static_cast<int64_t>(before)) {
      *set++ = targets[before++];
    }
    *set++ = static_cast<int32_t>(block.begin + rank + static_cast<int64_t>(before));
  };
  if (leave_out) {
    const int32_t* out = draws;
    for (int64_t rank = 0; rank < others; ++rank) {
      if (out < draws + drawn && *out == rank) {
        ++out;
      } else {
        take(rank);
      }
    }
  } else {
    std::for_each(draws, draws + drawn, take);
  }
  std::copy(targets.begin() + static_cast<std::ptrdiff_t>(before), targets.end(), set);
}

}  // namespace

ActiveClasses select_classes(const HeadShape& shape, std::span<const int32_t> labels, uint64_t seed, int64_t step,
                             std::byte* memory, Workers& workers) {
  XRUN_CHECK(shape.active > 0, "a selection has a size");
  XRUN_CHECK(static_cast<int64_t>(labels.size()) == shape.step_rows, "a selection is of the rows of its shape");
  const HeadSelection at = head_selection(shape);
  const auto part = [&](Bytes offset) { return reinterpret_cast<int32_t*>(memory + offset); };
  int32_t* const targets = part(at.distinct);
  int32_t* const firsts = part(at.firsts);
  int32_t* const offsets = part(at.offsets);
  int32_t* const draws = part(at.draws);
  int32_t* const classes = part(at.classes);

  const BlockRange blocks = shape.blocks.of_rows(shape.shard);
  const int64_t distinct = distinct_targets(shape, labels, targets);
  firsts[0] = 0;  // of a shard without classes there is nothing else
  offsets[0] = 0;
  int64_t all = 0;
  int64_t target = 0;
  int32_t next = 0;
  for (int64_t block = 0; block < shape.blocks.count(); ++block) {
    const int64_t first = target;
    while (target < distinct && targets[target] < (block + 1) * shape.blocks.size) {
      ++target;
    }
    const int64_t count = std::max(head_quota(shape, block), target - first);
    all += count;
    if (block >= blocks.begin && block < blocks.end) {
      firsts[block - blocks.begin] = static_cast<int32_t>(first);
      offsets[block - blocks.begin] = next;
      next += static_cast<int32_t>(count);
      firsts[block - blocks.begin + 1] = static_cast<int32_t>(target);
      offsets[block - blocks.begin + 1] = next;
    }
  }

  workers.for_each(blocks.size(), [&](int64_t i, int) {
    const int64_t begin = (blocks.begin + i) * shape.blocks.size;
    const RandomStream random(seed, static_cast<uint64_t>(step), static_cast<uint64_t>(blocks.begin + i), kDraw);
    fill_block(random, {begin, std::min(shape.shard.end, begin + shape.blocks.size)},
               {targets + firsts[i], targets + firsts[i + 1]}, offsets[i + 1] - offsets[i], draws + offsets[i],
               classes + offsets[i]);
  });

  *reinterpret_cast<HeadCounts*>(memory) = {.all = all};
  return selected_classes(shape, memory);
}

const HeadCounts& counts_of(const std::byte* memory) { return *reinterpret_cast<const HeadCounts*>(memory); }

ActiveClasses selected_classes(const HeadShape& shape, const std::byte* memory) {
  const HeadSelection at = head_selection(shape);
  return {.offsets = reinterpret_cast<const int32_t*>(memory + at.offsets),
          .classes = reinterpret_cast<const int32_t*>(memory + at.classes),
          .all = counts_of(memory).all};
}

int32_t number_of(const ActiveClasses& active, const HeadShape& shape, int32_t label) {
  if (label < shape.shard.begin || label >= shape.shard.end) {
    return -1;
  }
  const int64_t block = (label - shape.shard.begin) / shape.blocks.size;
  const int32_t* const begin = active.classes + active.offsets[block];
  const int32_t* const end = active.classes + active.offsets[block + 1];
  const int32_t* const found = std::lower_bound(begin, end, label);
  return found < end && *found == label ? static_cast<int32_t>(found - active.classes) : -1;
}

}  // namespace xrun::ops
