// Memory plan: computes the offset of each buffer in the arena of its device from the buffers' live ranges, and the
// offsets of values that live only during one row block in the scratch slice of a worker.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "graph/layouts/kernel_facts.h"
#include "planner/program/program.h"

namespace xrun::planner {

// A value that lives only while one row block passes through a stage: its place in the worker's scratch slice.
struct LocalValue {
  ValueId value;
  Bytes offset = 0;
  Bytes bytes = 0;
};

// The layout of a worker's scratch slice in one pass of a stage: local values first, then the scratch memory of kernels
// from `kernel_offset`.
struct BlockLayout {
  std::vector<LocalValue> locals;
  Bytes kernel_offset = 0;
  Bytes bytes = 0;
};

// A range of memory that is alive from time `first` to time `last`, both included.
struct LiveRange {
  Bytes bytes = 0;
  int32_t first = 0;
  int32_t last = 0;
  Bytes offset = 0;  // set by pack
};

struct Packing {
  Bytes bytes = 0;     // end of the highest range, which is the size of the packing
  Bytes live_max = 0;  // largest sum of the ranges alive at one time: a lower bound of `bytes` for any packing
};

// A packing is good enough if its size is at most this multiple of live_max; the documentation promises 1.02.
inline constexpr double kGoodEnough = 1.01;

// Gives every range an offset, a multiple of kAlignment, so that ranges that are alive together do not overlap. Sizes
// are rounded up to kAlignment. It places the ranges in several orders, with first fit and with best fit, and keeps the
// smallest result. Source of greedy by size and by breadth: Pisarchyk, Lee, "Efficient Memory Management for Deep
// Neural Net Inference", 2020. The repeated attempts that place the highest ranges first (`climb`) are our own.
Packing pack(std::span<LiveRange> ranges);  // pack.cpp

// Packs many sets of ranges. Devices that do equal work have sets that differ only in their times, and such a set is
// packed once.
class Packings {
 public:
  // Packs one set; the result is that of the function `pack`.
  Packing pack(std::span<LiveRange> ranges);
  // Returns the number of different sets so far.
  size_t size() const { return known_.size(); }

 private:
  struct Known {
    Packing packing;
    std::vector<Bytes> offsets;
  };
  std::map<std::vector<int64_t>, Known> known_;  // key: all that a packing depends on
};

// Returns the lower bound Packing::live_max without packing; the search uses it as an estimate.
Bytes live_max(std::span<const LiveRange> ranges);

// Returns the layout of a worker's slice in which `nodes` run in order on `rows` rows: one row block or, on GPUs, all
// row blocks of a micro-batch, which are contiguous for each value. Each value of `locals` is alive from its producer
// to its last reader. The values are followed by the scratch memory of kernels, whose size is that of the node that
// needs the most for a call on all rows.
BlockLayout layout_block(const Graph& graph, const KernelFacts& facts, std::span<const NodeId> nodes,
                         std::span<const ValueId> locals, int64_t rows, int64_t norm_rows);

// Sets first_use and last_use of all buffers from the instructions, then the offsets of the buffers and the arenas of
// the program. An arena begins with the persistent buffers in the order of Program::buffers: first those with learned
// values, whose offsets therefore do not depend on the batch, then those that each step overwrites (`is_refilled`). All
// other buffers follow and are placed by `pack`. The arena of the host comes first, before the arenas of the devices.
// Returns the number of packings that it searched for; devices that do equal work have one packing.
size_t place_buffers(Program& program);
// Makes each arena of the program at least as large as the arena with the same index in `arenas`.
void enlarge_arenas(Program& program, const std::vector<Arena>& arenas);

}  // namespace xrun::planner
