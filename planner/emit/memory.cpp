// Ranges are placed one after the other. Each goes into a gap between the ranges that were placed before it and are
// alive at the same time: into the first gap that is large enough (first fit) or into the smallest one (best fit).
// Early ranges get better places, so the order matters. Four orders are tried: by size, by length of life, by their
// product, and by time. Then the best order is improved repeatedly: the ranges that ended up highest are moved to the
// front of the order and all ranges are placed again (`climb`). The search stops as soon as the result is close to the
// lower bound, which is the largest sum of ranges that are alive at one time.
#include "planner/emit/memory.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "graph/base/check.h"

namespace xrun::planner {
namespace {

constexpr double kGoodEnough = 1.01;  // factor on live_max; 1.02 is promised
constexpr int kClimbs = 24;

using Order = std::vector<int32_t>;

class Packer {
 public:
  explicit Packer(std::span<LiveRange> ranges) : ranges_(ranges), best_(ranges.size()), now_(ranges.size()) {}

  Packing run() {
    Packing packing;
    packing.live_max = live_max(ranges_);
    bound_ = packing.live_max;
    best_bytes_ = -1;
    search();
    for (size_t i = 0; i < ranges_.size(); ++i) {
      ranges_[i].offset = best_[i];
    }
    packing.bytes = std::max<Bytes>(best_bytes_, 0);
    return packing;
  }

 private:
  void search() {
    Order order(ranges_.size());
    std::iota(order.begin(), order.end(), 0);
    const auto length = [&](int32_t i) { return static_cast<Bytes>(at(i).last) - at(i).first + 1; };
    const auto size = [&](int32_t i) { return align_up(at(i).bytes); };
    const auto by = [&](auto&& key) {
      Order sorted = order;
      std::stable_sort(sorted.begin(), sorted.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
      return sorted;
    };
    const std::vector<Order> orders{
        by([&](int32_t i) { return std::pair(size(i), length(i)); }),
        by([&](int32_t i) { return std::pair(length(i), size(i)); }),
        by([&](int32_t i) {
          return std::pair(static_cast<double>(size(i)) * static_cast<double>(length(i)), size(i));
        }),
        by([&](int32_t i) { return std::pair(-static_cast<Bytes>(at(i).first), size(i)); }),
    };
    for (const Order& one : orders) {
      for (const bool best_fit : {false, true}) {
        if (attempt(one, best_fit)) {
          return;
        }
      }
    }
    climb();
  }

  // Moves the ranges that end in the upper half of the excess over the lower bound to the front of the order, and tries
  // again.
  void climb() {
    for (int round = 0; round < kClimbs; ++round) {
      Order order = best_order_;
      std::stable_partition(order.begin(), order.end(), [&](int32_t i) {
        return now_[static_cast<size_t>(i)] + align_up(at(i).bytes) > bound_ + (now_bytes_ - bound_) / 2;
      });
      const bool best_fit = round % 2 == 1;
      if (attempt(order, best_fit)) {
        return;
      }
      best_order_ = std::move(order);
    }
  }

  // Places the ranges in this order and keeps the result if it is the best so far. Returns whether the best result is
  // good enough to stop.
  bool attempt(const Order& order, bool best_fit) {
    placed_.clear();
    now_bytes_ = 0;
    for (const int32_t i : order) {
      place(i, best_fit);
    }
    if (best_bytes_ < 0 || now_bytes_ < best_bytes_) {
      best_bytes_ = now_bytes_;
      best_ = now_;
      best_order_ = order;
    }
    return static_cast<double>(best_bytes_) <= kGoodEnough * static_cast<double>(bound_);
  }

  void place(int32_t i, bool best_fit) {
    const LiveRange& range = at(i);
    const Bytes size = align_up(range.bytes);
    Bytes offset = -1;
    Bytes end = 0;  // end of the ranges visited so far, which are in the order of their offsets
    Bytes smallest = 0;
    for (const Placed& other : placed_) {
      if (other.first > range.last || range.first > other.last) {
        continue;
      }
      const Bytes gap = other.begin - end;
      if (gap >= size && (offset < 0 || (best_fit && gap < smallest))) {
        offset = end;
        smallest = gap;
        if (!best_fit) {
          break;
        }
      }
      end = std::max(end, other.end);
    }
    offset = offset < 0 ? end : offset;
    now_[static_cast<size_t>(i)] = offset;
    now_bytes_ = std::max(now_bytes_, offset + size);
    const auto where = std::upper_bound(placed_.begin(), placed_.end(), offset,
                                        [](Bytes value, const Placed& other) { return value < other.begin; });
    placed_.insert(where, {offset, offset + size, range.first, range.last});
  }

  // A placed range. These are contiguous in memory, which makes the search for a gap fast.
  struct Placed {
    Bytes begin;
    Bytes end;
    int32_t first;
    int32_t last;
  };

  const LiveRange& at(int32_t i) const { return ranges_[static_cast<size_t>(i)]; }

  std::span<LiveRange> ranges_;
  std::vector<Bytes> best_;
  std::vector<Bytes> now_;
  Order best_order_;
  std::vector<Placed> placed_;  // in ascending offset
  Bytes best_bytes_ = -1;
  Bytes now_bytes_ = 0;
  Bytes bound_ = 0;
};

}  // namespace

Bytes live_max(std::span<const LiveRange> ranges) {
  std::vector<std::pair<int64_t, Bytes>> events;  // (time, change): a range that ends at t is free at t + 1
  events.reserve(2 * ranges.size());
  for (const LiveRange& range : ranges) {
    events.push_back({range.first, align_up(range.bytes)});
    events.push_back({static_cast<int64_t>(range.last) + 1, -align_up(range.bytes)});
  }
  std::sort(events.begin(), events.end());
  Bytes live = 0;
  Bytes most = 0;
  for (const auto& [time, change] : events) {
    live += change;
    most = std::max(most, live);
  }
  return most;
}

Packing pack(std::span<LiveRange> ranges) { return Packer(ranges).run(); }

BlockLayout layout_block(const Graph& graph, const KernelFacts& facts, std::span<const NodeId> nodes,
                         std::span<const ValueId> locals, int64_t norm_rows) {
  std::unordered_map<ValueId, size_t> index;
  std::vector<LiveRange> ranges;
  for (const ValueId value : locals) {
    index[value] = ranges.size();
    ranges.push_back({.bytes = graph.value(value).type.bytes(norm_rows, norm_rows), .first = -1, .last = -1});
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
    scratch = std::max(scratch, fact < facts.nodes.size() ? facts.nodes[fact].scratch : 0);
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

namespace {

std::vector<LiveRange> live_ranges(const std::vector<Buffer*>& buffers) {
  std::vector<LiveRange> ranges;
  for (const Buffer* buffer : buffers) {
    ranges.push_back({.bytes = buffer->bytes, .first = buffer->first_use, .last = buffer->last_use});
  }
  return ranges;
}

// Extends the live ranges of buffers that exchanges use: each begins at the computation before the exchange and ends at
// the computation after it. Then no computation has to wait until an exchange frees memory, and no exchange waits for
// the memory of a computation. A live range is extended only as far as the largest sum of live ranges does not grow.
void add_slack(const Program& program, const std::vector<Buffer*>& buffers, std::vector<LiveRange>& ranges) {
  const auto count = static_cast<int32_t>(program.instructions.size());
  std::vector<Bytes> live(static_cast<size_t>(count) + 1, 0);
  for (const LiveRange& range : ranges) {
    live[static_cast<size_t>(range.first)] += align_up(range.bytes);
    live[static_cast<size_t>(range.last) + 1] -= align_up(range.bytes);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  const Bytes most = live_max(ranges);
  const auto stream_is = [&](int32_t i, Stream stream) {
    return program.instructions[static_cast<size_t>(i)].stream == stream;
  };
  // Returns the next computation of the device from instruction `from` on, in direction `step`, if there is unused
  // memory for the range at all instructions up to it.
  const auto reach = [&](int32_t from, int32_t step, const LiveRange& range) {
    int32_t to = from;
    do {
      to += step;
      if (to < 0 || to >= count || live[static_cast<size_t>(to)] + align_up(range.bytes) > most) {
        return from;
      }
    } while (program.instructions[static_cast<size_t>(to)].device != buffers.front()->device ||
             !stream_is(to, Stream::kCompute));
    for (int32_t t = from + step; t != to + step; t += step) {
      live[static_cast<size_t>(t)] += align_up(range.bytes);
    }
    return to;
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

// Whether a buffer is read after the step. In inference, this includes the softmax of heads, from which probabilities
// are computed.
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

}  // namespace

void place_buffers(Program& program) {
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
  program.arenas.clear();
  for (int device = kHost; device < program.devices; ++device) {
    Bytes persistent = 0;
    std::vector<Buffer*> owners;
    std::vector<Buffer*> mapped;
    for (Buffer& buffer : program.buffers) {
      if (buffer.device != device) {
        continue;
      }
      if (is_mapped(program, buffer)) {
        mapped.push_back(&buffer);
      } else if (!buffer.persistent) {
        owners.push_back(&buffer);
      }
    }
    for (const bool refilled : {false, true}) {
      for (Buffer& buffer : program.buffers) {
        if (buffer.device == device && buffer.persistent && !is_mapped(program, buffer) &&
            is_refilled(buffer.purpose) == refilled) {
          buffer.offset = persistent;
          persistent += align_up(buffer.bytes);
        }
      }
    }
    std::vector<LiveRange> ranges = live_ranges(owners);
    const Bytes live = live_max(ranges);
    Packing packing;
    bool placed = false;
    if (program.overlap && device != kHost) {
      add_slack(program, owners, ranges);
      packing = pack(ranges);
      placed = static_cast<double>(persistent + packing.bytes) <=
               kGoodEnough * static_cast<double>(persistent + packing.live_max);
    }
    if (!placed) {
      ranges = live_ranges(owners);
      packing = pack(ranges);
    }
    packing.live_max = live;
    for (size_t i = 0; i < ranges.size(); ++i) {
      owners[i]->offset = persistent + ranges[i].offset;
    }
    program.arenas.push_back(
        {.device = device, .bytes = persistent + packing.bytes, .live_max = persistent + packing.live_max});
    place_behind(program.arenas.back(), mapped);
  }
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
