// Ranges are placed one after the other. Each goes into a gap between the ranges that were placed before it and are
// alive at the same time: into the first gap that is large enough (first fit) or into the smallest one (best fit).
// Early ranges get better places, so the order matters. Four orders are tried: by size, by length of life, by their
// product, and by time. Then the best order is improved repeatedly: the ranges that ended up highest are moved to the
// front of the order and all ranges are placed again (`climb`). The search stops as soon as the result is close to the
// lower bound, which is the largest sum of ranges that are alive at one time.
// Tests: tests/planner/emit/memory_test.cpp
#include <algorithm>
#include <iterator>
#include <numeric>

#include "planner/emit/memory.h"

namespace xrun::planner {
namespace {

constexpr int kClimbs = 24;

using Order = std::vector<int32_t>;

// Returns the orders in which the ranges are placed at first.
std::vector<Order> first_orders(std::span<const LiveRange> ranges) {
  const auto at = [&](int32_t i) -> const LiveRange& { return ranges[static_cast<size_t>(i)]; };
  const auto length = [&](int32_t i) { return static_cast<Bytes>(at(i).last) - at(i).first + 1; };
  const auto size = [&](int32_t i) { return align_up(at(i).bytes); };
  const auto by = [&](auto&& key) {
    Order order(ranges.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
    return order;
  };
  return {
      by([&](int32_t i) { return std::pair(size(i), length(i)); }),
      by([&](int32_t i) { return std::pair(length(i), size(i)); }),
      by([&](int32_t i) { return std::pair(static_cast<double>(size(i)) * static_cast<double>(length(i)), size(i)); }),
      by([&](int32_t i) { return std::pair(-static_cast<Bytes>(at(i).first), size(i)); }),
  };
}

// Returns all that the packing of ranges depends on: their sizes, the order of their ends in time, and the orders in
// which they are placed.
std::vector<int64_t> key_of(std::span<const LiveRange> ranges, const std::vector<Order>& orders) {
  std::vector<int32_t> times;
  for (const LiveRange& range : ranges) {
    times.insert(times.end(), {range.first, range.last});
  }
  std::ranges::sort(times);
  times.erase(std::unique(times.begin(), times.end()), times.end());
  std::vector<int64_t> key;
  for (const LiveRange& range : ranges) {
    key.push_back(align_up(range.bytes));
    for (const int32_t time : {range.first, range.last}) {
      key.push_back(std::ranges::lower_bound(times, time) - times.begin());
    }
  }
  for (const Order& order : orders) {
    key.insert(key.end(), order.begin(), order.end());
  }
  return key;
}

class Packer {
 public:
  Packer(std::span<LiveRange> ranges, const std::vector<Order>& orders)
      : ranges_(ranges), orders_(orders), best_(ranges.size()), now_(ranges.size()) {}

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
    for (const Order& one : orders_) {
      for (const bool best_fit : {false, true}) {
        if (attempt(one, best_fit)) {
          return;
        }
      }
    }
    climb();
  }

  // Moves the ranges that end in the upper half of the excess over the lower bound to the front of the order, and packs
  // again; repeats this a few times.
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

  // A placed range. Placed ranges are contiguous in memory, which makes the search for a gap fast.
  struct Placed {
    Bytes begin;
    Bytes end;
    int32_t first;
    int32_t last;
  };

  const LiveRange& at(int32_t i) const { return ranges_[static_cast<size_t>(i)]; }

  std::span<LiveRange> ranges_;
  const std::vector<Order>& orders_;
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

Packing pack(std::span<LiveRange> ranges) { return Packer(ranges, first_orders(ranges)).run(); }

Packing Packings::pack(std::span<LiveRange> ranges) {
  const std::vector<Order> orders = first_orders(ranges);
  const auto [at, is_new] = known_.try_emplace(key_of(ranges, orders));
  Known& known = at->second;
  if (is_new) {
    known.packing = Packer(ranges, orders).run();
    std::ranges::transform(ranges, std::back_inserter(known.offsets), &LiveRange::offset);
  }
  for (size_t i = 0; i < ranges.size(); ++i) {
    ranges[i].offset = known.offsets[i];
  }
  return known.packing;
}

}  // namespace xrun::planner
