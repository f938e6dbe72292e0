// Steps of a selection:
// 1. The targets of all rows are sorted, each once. Classes from their lists of neighbours are added while there is
//    space.
// 2. The number of classes still to draw is divided among the class blocks in proportion to their remaining classes.
// 3. The shard writes its own blocks: the chosen classes of each block and those drawn from the rest of the block, in
//    ascending order.
// Every shard computes steps 1 and 2 for the whole head. The random numbers of a block depend only on seed, step and
// block, so shards need not communicate.
#include "ops/head/select_classes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "graph/base/check.h"
#include "graph/base/random.h"

namespace xrun::ops {
namespace {

constexpr uint64_t kDraw = 0x73656c656374;  // separates these random numbers from random numbers for other purposes

// Writes the targets of the whole head to `out`, each once and in ascending order. Returns their number.
int64_t distinct_targets(const HeadShape& shape, std::span<const int32_t> labels, int32_t* out) {
  int32_t* const end = std::copy_if(labels.begin(), labels.end(), out,
                                    [&](int32_t label) { return label >= 0 && label < shape.blocks.classes; });
  std::sort(out, end);
  return std::unique(out, end) - out;
}

// Draws `count` different numbers below `below` and writes them in ascending order. A number that was drawn before is
// replaced by another draw, so REQUIRES: count <= below / 2.
void draw_distinct(const RandomStream& random, int64_t count, int64_t below, int32_t* out) {
  constexpr int64_t kRun = 64;
  uint64_t block = 0;  // number of a block of four draws
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

// A set of classes, stored as a hash table in memory of the caller.
class ClassSet {
 public:
  // REQUIRES: `slots` is a power of two, larger than the number of classes that are inserted.
  ClassSet(int32_t* memory, int64_t slots)
      : slots_(memory), mask_(static_cast<uint32_t>(slots) - 1), shift_(32 - std::countr_zero(mask_ + 1)) {
    std::fill_n(slots_, slots, -1);
  }
  // Inserts a class. Returns whether it was not in the set.
  bool insert(int32_t one) {
    uint32_t at = static_cast<uint32_t>(one) * 0x9E3779B9U >> shift_;
    while (slots_[at] >= 0 && slots_[at] != one) {
      at = (at + 1) & mask_;
    }
    return std::exchange(slots_[at], one) < 0;
  }

 private:
  int32_t* slots_;
  uint32_t mask_;
  int shift_;
};

// Appends classes from the targets' lists to `chosen`, which begins with the targets, until it has shape.active
// classes. Returns the number of chosen classes. The lists take turns with one entry each, beginning with list `first`
// modulo the number of lists.
int64_t add_neighbours(const HeadShape& shape, const int32_t* lists, int64_t targets, int64_t first, ClassSet met,
                       int32_t* chosen) {
  std::for_each(chosen, chosen + targets, [&](int32_t target) { met.insert(target); });
  int64_t count = targets;
  for (int64_t turn = 0; turn < shape.neighbours * targets && count < shape.active; ++turn) {
    const int64_t list = (first + turn) % targets;
    const int32_t one = lists[chosen[list] * shape.neighbours + turn / targets];
    if (one >= 0 && one < shape.blocks.classes && met.insert(one)) {
      chosen[count++] = one;
    }
  }
  return count;
}

// Writes the classes of one block and, unless `corrections` is null, their corrections. The classes are the `chosen`
// ones and `wanted` classes drawn from the rest of the block, in ascending order. If `wanted` is more than half of the
// rest, the classes to leave out are drawn instead.
void fill_block(const RandomStream& random, ClassRange block, std::span<const int32_t> chosen, int64_t wanted,
                int32_t* draws, int32_t* classes, float* corrections) {
  const int64_t others = block.size() - static_cast<int64_t>(chosen.size());
  const bool leave_out = 2 * wanted > others;
  const int64_t drawn = leave_out ? others - wanted : wanted;
  draw_distinct(random, drawn, others, draws);
  const double share = static_cast<double>(wanted) / static_cast<double>(std::max<int64_t>(1, others));
  const auto correction = static_cast<float>(-std::log(share));
  const auto put = [&](int64_t one, float value) {
    *classes++ = static_cast<int32_t>(one);
    if (corrections != nullptr) {
      *corrections++ = value;
    }
  };
  size_t before = 0;  // number of chosen classes already written
  // Writes the class with rank `rank` among those that are not chosen, after the chosen classes below it.
  const auto take = [&](int64_t rank) {
    while (before < chosen.size() && chosen[before] - block.begin <= rank + static_cast<int64_t>(before)) {
      put(chosen[before++], 0);
    }
    put(block.begin + rank + static_cast<int64_t>(before), correction);
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
  while (before < chosen.size()) {
    put(chosen[before++], 0);
  }
}

}  // namespace

ActiveClasses select_classes(const HeadShape& shape, std::span<const int32_t> labels, uint64_t seed, int64_t step,
                             std::byte* memory, Workers& workers, const int32_t* lists) {
  XRUN_CHECK(0 < shape.active && shape.active <= shape.blocks.classes, "a selection has a size");
  XRUN_CHECK(static_cast<int64_t>(labels.size()) == shape.step_rows, "a selection is of the rows of its shape");
  XRUN_CHECK(lists == nullptr || shape.neighbours > 0, "lists have a length");
  const HeadSelection at = head_selection(shape);
  const auto part = [&](Bytes offset) { return reinterpret_cast<int32_t*>(memory + offset); };
  int32_t* const chosen = part(at.chosen);
  int32_t* const counts = part(at.counts);
  int32_t* const offsets = part(at.offsets);
  int32_t* const draws = part(at.draws);
  int32_t* const classes = part(at.classes);
  auto* const corrections = shape.log_q ? reinterpret_cast<float*>(memory + at.corrections) : nullptr;
  int32_t* const former = part(at.former);
  HeadCounts& of_step = *reinterpret_cast<HeadCounts*>(memory);

  const int64_t last = std::clamp<int64_t>(of_step.of_shard, 0, at.most);
  std::copy_n(classes, last, former);

  const int64_t targets = distinct_targets(shape, labels, chosen);
  const int64_t count =
      lists == nullptr ? targets : add_neighbours(shape, lists, targets, step, {part(at.met), at.slots}, chosen);
  const auto block_of = [&](int64_t one) { return one / shape.blocks.size; };
  const int64_t all_blocks = shape.blocks.count();
  std::fill_n(counts, all_blocks, 0);
  std::for_each(chosen, chosen + count, [&](int32_t one) { ++counts[block_of(one)]; });

  // Each block gets draws in proportion to its classes that are not chosen, so no block has to draw more classes than
  // it has.
  const int64_t others = shape.blocks.classes - count;
  const int64_t drawn = std::max<int64_t>(0, shape.active - count);
  const auto drawn_of_first = [&](int64_t first) { return others == 0 ? 0 : drawn * first / others; };
  const BlockRange blocks = shape.blocks.of_rows(shape.shard);
  const auto classes_of = [&](int64_t block) -> ClassRange {
    return {block * shape.blocks.size, std::min(shape.blocks.classes, (block + 1) * shape.blocks.size)};
  };
  offsets[0] = 0;
  int64_t before = 0;  // number of classes of earlier blocks that are not chosen
  for (int64_t block = 0; block < blocks.end; ++block) {
    const int64_t next = before + classes_of(block).size() - counts[block];
    if (block >= blocks.begin) {
      const int64_t i = block - blocks.begin;
      const int64_t active = counts[block] + drawn_of_first(next) - drawn_of_first(before);
      offsets[i + 1] = offsets[i] + static_cast<int32_t>(active);
    }
    before = next;
  }

  // Sorts the chosen classes by block into `draws`.
  std::fill_n(counts, all_blocks, 0);
  std::for_each(chosen, chosen + count, [&](int32_t one) {
    const int64_t i = block_of(one) - blocks.begin;
    if (i >= 0 && i < blocks.size()) {
      draws[offsets[i] + counts[i]++] = one;
    }
  });
  workers.for_each(blocks.size(), [&](int64_t i, int) {
    const int64_t block = blocks.begin + i;
    const std::span<int32_t> its(draws + offsets[i], static_cast<size_t>(counts[i]));
    std::sort(its.begin(), its.end());
    const RandomStream random(seed, static_cast<uint64_t>(step), static_cast<uint64_t>(block), kDraw);
    fill_block(random, classes_of(block), its, offsets[i + 1] - offsets[i] - counts[i], its.data() + its.size(),
               classes + offsets[i], corrections == nullptr ? nullptr : corrections + offsets[i]);
  });

  const auto of_shard = static_cast<size_t>(offsets[blocks.size()]);
  of_step = {.all = count + drawn,
             .near = count - targets,
             .of_shard = static_cast<int64_t>(of_shard),
             .common = count_common({former, static_cast<size_t>(last)}, {classes, of_shard})};
  return selected_classes(shape, memory);
}

ActiveClasses selected_classes(const HeadShape& shape, const std::byte* memory) {
  const HeadSelection at = head_selection(shape);
  return {.offsets = reinterpret_cast<const int32_t*>(memory + at.offsets),
          .classes = reinterpret_cast<const int32_t*>(memory + at.classes),
          .all = counts_of(memory).all,
          .near = counts_of(memory).near,
          .corrections = shape.log_q ? reinterpret_cast<const float*>(memory + at.corrections) : nullptr};
}

const HeadCounts& counts_of(const std::byte* memory) { return *reinterpret_cast<const HeadCounts*>(memory); }

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

int64_t count_common(std::span<const int32_t> left, std::span<const int32_t> right) {
  int64_t common = 0;
  for (size_t i = 0, j = 0; i < left.size() && j < right.size();) {
    const int32_t one = left[i];
    const int32_t other = right[j];
    common += one == other ? 1 : 0;
    i += one <= other ? 1 : 0;
    j += other <= one ? 1 : 0;
  }
  return common;
}

}  // namespace xrun::ops
