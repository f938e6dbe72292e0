// Sets the offsets of the buffers of a program, and of values in the scratch slices of workers.
#include "planner/emit/memory.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

std::vector<LiveRange> live_ranges(const std::vector<Buffer*>& buffers) {
  std::vector<LiveRange> ranges;
  for (const Buffer* buffer : buffers) {
    ranges.push_back({.bytes = buffer->bytes, .first = buffer->first_use, .last = buffer->last_use});
  }
  return ranges;
}

// The instructions and the buffers of a device.
struct DeviceUse {
  std::vector<int32_t> instructions;  // in order
  std::vector<Buffer*> buffers;       // in the order of Program::buffers
};

// Extends the live ranges of buffers that exchanges use: each begins at the computation before the exchange and ends at
// the computation after it. Then no computation has to wait until an exchange frees memory, and no exchange waits for
// the memory of a computation. A live range is extended only as far as the largest sum of live ranges does not grow.
// The sum is known at the instructions of the device; between two of them it is at most as large as at either.
void add_slack(const Program& program, const std::vector<int32_t>& instructions, const std::vector<Buffer*>& buffers,
               std::vector<LiveRange>& ranges) {
  std::vector<int32_t> times = instructions;
  for (const LiveRange& range : ranges) {
    times.push_back(range.first);
    times.push_back(range.last);
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  const auto place_of = [&](int32_t time) {
    return static_cast<size_t>(std::ranges::lower_bound(times, time) - times.begin());
  };
  std::vector<Bytes> live(times.size() + 1, 0);
  for (const LiveRange& range : ranges) {
    live[place_of(range.first)] += align_up(range.bytes);
    live[place_of(range.last) + 1] -= align_up(range.bytes);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  const Bytes most = live_max(ranges);
  const auto stream_is = [&](int32_t time, Stream stream) {
    return program.instructions[static_cast<size_t>(time)].stream == stream;
  };
  // Returns the next computation of the device from instruction `from` on, in direction `step`, if there is unused
  // memory for the range at all instructions up to it.
  const auto reach = [&](int32_t from, std::ptrdiff_t step, const LiveRange& range) {
    const auto begin = static_cast<std::ptrdiff_t>(place_of(from));
    std::ptrdiff_t to = begin;
    do {
      to += step;
      if (to < 0 || to >= std::ssize(times) || live[static_cast<size_t>(to)] + align_up(range.bytes) > most) {
        return from;
      }
    } while (program.instructions[static_cast<size_t>(times[static_cast<size_t>(to)])].device !=
                 buffers.front()->device ||
             !stream_is(times[static_cast<size_t>(to)], Stream::kCompute));
    for (std::ptrdiff_t t = begin + step; t != to + step; t += step) {
      live[static_cast<size_t>(t)] += align_up(range.bytes);
    }
    return times[static_cast<size_t>(to)];
  };
  for (size_t i = 0; i < ranges.size(); ++i) {
    LiveRange& range = ranges[i];
    if (stream_is(buffers[i]->first_use, Stream::kComm)) {
      range.first = reach(range.first, -1, range);
    }
    if (stream_is(buffers[i]->last_use, Stream::kComm)) {
      range.last = reach(range.last, 1, range);
    }
  }
}

// Whether a buffer is read after the step. In inference, the softmax of heads is also read, to compute
// probabilities.
bool is_result(const Program& program, const Buffer& buffer) {
  return (buffer.purpose == Purpose::kResult && buffer.head_pass < 0) ||
         (buffer.purpose == Purpose::kHeadSoftmax && !program.training);
}

// Sets the offsets of class rows in files, which are mapped into the address space after the arena.
void place_behind(const Arena& arena, const std::vector<Buffer*>& mapped) {
  Bytes behind = align_up(arena.bytes, kMappedAlignment);
  for (Buffer* buffer : mapped) {
    buffer->offset = behind;
    behind += align_up(buffer->bytes, kMappedAlignment);
  }
}

// Sets first_use and last_use of all buffers from the instructions.
void set_uses(Program& program) {
  for (const Instruction& instruction : program.instructions) {
    for (const auto* list : {&instruction.reads, &instruction.writes}) {
      for (const BufferId id : *list) {
        Buffer& buffer = program.buffers[static_cast<size_t>(id.index)];
        buffer.first_use = buffer.first_use < 0 ? instruction.id.index : buffer.first_use;
        buffer.last_use = std::max(buffer.last_use, instruction.id.index);
      }
    }
  }
  const auto end = static_cast<int32_t>(program.instructions.size()) - 1;
  for (Buffer& buffer : program.buffers) {
    if (buffer.persistent) {
      buffer.first_use = 0;
      buffer.last_use = end;
    } else if (is_result(program, buffer)) {
      buffer.last_use = end;
    }
    XRUN_CHECK(buffer.first_use >= 0, "a buffer that no instruction touches: " + buffer.name);
  }
}

// Packs the buffers of a device that are not kept from step to step, after `persistent` bytes. If exchanges overlap
// with computation, their buffers get longer live ranges, provided that the packing is then still good enough.
Packing pack_buffers(const Program& program, const std::vector<int32_t>& instructions, Bytes persistent,
                     const std::vector<Buffer*>& buffers, Packings& packings, std::vector<LiveRange>& ranges) {
  ranges = live_ranges(buffers);
  const Bytes live = live_max(ranges);
  Packing packing;
  bool placed = false;
  if (program.overlap && !instructions.empty()) {
    add_slack(program, instructions, buffers, ranges);
    packing = packings.pack(ranges);
    placed = static_cast<double>(persistent + packing.bytes) <=
             kGoodEnough * static_cast<double>(persistent + packing.live_max);
  }
  if (!placed) {
    ranges = live_ranges(buffers);
    packing = packings.pack(ranges);
  }
  packing.live_max = live;
  return packing;
}

// Sets the offsets of the buffers of a device, and adds its arena to the program.
void place_arena(Program& program, int device, const DeviceUse& use, Packings& packings) {
  Bytes persistent = 0;
  std::vector<Buffer*> owners;
  std::vector<Buffer*> mapped;
  for (Buffer* buffer : use.buffers) {
    if (is_mapped(program, *buffer)) {
      mapped.push_back(buffer);
    } else if (!buffer->persistent) {
      owners.push_back(buffer);
    }
  }
  for (const bool refilled : {false, true}) {
    for (Buffer* buffer : use.buffers) {
      if (buffer->persistent && !is_mapped(program, *buffer) && is_refilled(buffer->purpose) == refilled) {
        buffer->offset = persistent;
        persistent += align_up(buffer->bytes);
      }
    }
  }
  std::vector<LiveRange> ranges;
  const Packing packing = pack_buffers(program, use.instructions, persistent, owners, packings, ranges);
  for (size_t i = 0; i < ranges.size(); ++i) {
    owners[i]->offset = persistent + ranges[i].offset;
  }
  program.arenas.push_back(
      {.device = device, .bytes = persistent + packing.bytes, .live_max = persistent + packing.live_max});
  place_behind(program.arenas.back(), mapped);
}

}  // namespace

BlockLayout layout_block(const Graph& graph, const KernelFacts& facts, std::span<const NodeId> nodes,
                         std::span<const ValueId> locals, int64_t rows, int64_t norm_rows) {
  std::unordered_map<ValueId, size_t> index;
  std::vector<LiveRange> ranges;
  for (const ValueId value : locals) {
    index[value] = ranges.size();
    ranges.push_back({.bytes = graph.value(value).type.bytes(rows, norm_rows), .first = -1, .last = -1});
  }
  Bytes scratch = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = graph.node(nodes[i]);
    const auto touch = [&](ValueId value) {
      if (const auto found = index.find(value); found != index.end()) {
        LiveRange& range = ranges[found->second];
        range.first = range.first < 0 ? static_cast<int32_t>(i) : range.first;
        range.last = static_cast<int32_t>(i);
      }
    };
    std::for_each(node.inputs.begin(), node.inputs.end(), touch);
    std::for_each(node.outputs.begin(), node.outputs.end(), touch);
    const auto fact = static_cast<size_t>(nodes[i].index);
    scratch = std::max(scratch, fact < facts.nodes.size() ? facts.nodes[fact].scratch_of(rows / norm_rows) : 0);
  }
  const Packing packing = pack(ranges);
  BlockLayout layout;
  for (size_t i = 0; i < locals.size(); ++i) {
    layout.locals.push_back({locals[i], ranges[i].offset, ranges[i].bytes});
  }
  layout.kernel_offset = align_up(packing.bytes);
  layout.bytes = layout.kernel_offset + align_up(scratch);
  return layout;
}

size_t place_buffers(Program& program) {
  set_uses(program);
  std::vector<DeviceUse> uses(static_cast<size_t>(program.devices - kHost));  // index: device - kHost
  const auto use_of = [&](int device) -> DeviceUse& { return uses[static_cast<size_t>(device - kHost)]; };
  for (Buffer& buffer : program.buffers) {
    use_of(buffer.device).buffers.push_back(&buffer);
  }
  for (const Instruction& instruction : program.instructions) {
    use_of(instruction.device).instructions.push_back(instruction.id.index);
  }
  program.arenas.clear();
  Packings packings;
  for (int device = kHost; device < program.devices; ++device) {
    place_arena(program, device, use_of(device), packings);
  }
  return packings.size();
}

void enlarge_arenas(Program& program, const std::vector<Arena>& arenas) {
  for (size_t i = 0; i < program.arenas.size(); ++i) {
    Arena& arena = program.arenas[i];
    arena.bytes = std::max(arena.bytes, arenas[i].bytes);
    std::vector<Buffer*> mapped;
    for (Buffer& buffer : program.buffers) {
      if (buffer.device == arena.device && is_mapped(program, buffer)) {
        mapped.push_back(&buffer);
      }
    }
    place_behind(arena, mapped);
  }
}

}  // namespace xrun::planner
