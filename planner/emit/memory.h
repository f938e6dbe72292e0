// Memory plan: live ranges to offsets in one arena per device, and offsets of block-local values in a worker's slice.
#pragma once

#include <span>
#include <vector>

#include "graph/kernel_facts.h"
#include "planner/program.h"

namespace xrun::planner {

// A value that lives only while one row block passes through a stage: its place in the worker's scratch slice.
struct LocalValue {
  ValueId value;
  Bytes offset = 0;
  Bytes bytes = 0;
};

// Scratch slice of a worker in one pass of a stage: local values first, kernel scratch from `kernel_offset`.
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
  Bytes bytes = 0;     // end of the highest range
  Bytes live_max = 0;  // largest sum of ranges alive at one time: a lower bound of any packing
};

// Gives every range an offset, a multiple of kAlignment, so that ranges that are alive together do not overlap. Sizes
// are rounded up to kAlignment. Several orders of first fit and best fit are tried and the smallest result is kept.
// Source: greedy by size and by breadth, Pisarchyk, Lee, "Efficient Memory Management for Deep Neural Net Inference",
// 2020; the climb that puts the ranges of the peak first is ours.
Packing pack(std::span<LiveRange> ranges);

// The lower bound Packing::live_max without packing, for the search.
Bytes live_max(std::span<const LiveRange> ranges);

// A worker's slice for `nodes` run in order on one row block: values in `locals` from their producer to their last
// reader, then the largest kernel scratch of the nodes.
BlockLayout layout_block(const Graph& graph, const KernelFacts& facts, std::span<const NodeId> nodes,
                         std::span<const ValueId> locals, int64_t norm_rows);

// Sets first_use and last_use of all buffers from the instructions, then offsets and `arenas`. Persistent buffers come
// first, in the order of the buffers; those that a step fills anew (`is_refilled`) come after those with learned
// values, whose offsets then do not depend on the batch. The others follow by `pack`. Arenas: the host's first, then
// one per device.
void place_buffers(Program& program);
// Makes each arena at least as large as the one of the same index in `arenas`.
void enlarge_arenas(Program& program, const std::vector<Arena>& arenas);

}  // namespace xrun::planner
