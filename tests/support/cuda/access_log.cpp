// Tests: tests/cuda/access_log_test.cpp
#include "tests/support/cuda/access_log.h"

#include <algorithm>

namespace xrun::cuda::fake {

uint64_t Clock::advance(size_t actor) {
  counts_.resize(std::max(counts_.size(), actor + 1));
  return ++counts_[actor];
}

void Clock::join(const Clock& other) {
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (size_t i = 0; i < other.counts_.size(); ++i) {
    counts_[i] = std::max(counts_[i], other.counts_[i]);
  }
}

void AccessLog::cut(uint64_t address) {
  const auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) {
    return;
  }
  const auto at = std::prev(after);
  if (at->first < address && address < at->second.end) {
    segments_.emplace(address, at->second);
    at->second.end = address;
  }
}

std::optional<Conflict> AccessLog::record(uint64_t address, uint64_t bytes, bool write, const Accessor& accessor,
                                          const Clock& clock) {
  const uint64_t end = address + bytes;
  cut(address);
  cut(end);
  std::optional<Conflict> conflict;
  const auto meet = [&](const Accessor& other, uint64_t at, bool other_writes) {
    if (!conflict && !happened_before(other, clock)) {
      conflict = Conflict{.other = other, .address = at, .other_writes = other_writes};
    }
  };
  uint64_t at = address;
  for (auto next = segments_.lower_bound(address); at < end;) {
    if (next == segments_.end() || next->first > at) {  // bytes without a record
      const uint64_t stop = next == segments_.end() ? end : std::min(end, next->first);
      next = segments_.emplace_hint(next, at, Segment{.end = stop, .write = std::nullopt, .reads = {}});
    }
    Segment& segment = next->second;
    if (segment.write) {
      meet(*segment.write, at, true);
    }
    if (write) {
      for (const Accessor& read : segment.reads) {
        meet(read, at, false);
      }
      segment.write = accessor;
      segment.reads.clear();
    } else {
      std::erase_if(segment.reads, [&](const Accessor& read) { return read.actor == accessor.actor; });
      segment.reads.push_back(accessor);
    }
    at = segment.end;
    ++next;
  }
  return conflict;
}

std::optional<Accessor> AccessLog::find_later(uint64_t address, uint64_t bytes, const Clock& clock) const {
  auto at = segments_.upper_bound(address);
  if (at != segments_.begin()) {
    --at;
  }
  for (; at != segments_.end() && at->first < address + bytes; ++at) {
    if (at->second.end <= address) {
      continue;
    }
    if (at->second.write && !happened_before(*at->second.write, clock)) {
      return at->second.write;
    }
    for (const Accessor& read : at->second.reads) {
      if (!happened_before(read, clock)) {
        return read;
      }
    }
  }
  return std::nullopt;
}

void AccessLog::forget(uint64_t address, uint64_t bytes) {
  cut(address);
  cut(address + bytes);
  segments_.erase(segments_.lower_bound(address), segments_.lower_bound(address + bytes));
}

}  // namespace xrun::cuda::fake
