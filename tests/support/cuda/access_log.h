// A log of the last accesses to bytes, which finds accesses that nothing orders, by vector clocks of the host and of
// streams.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace xrun::cuda::fake {

// A vector clock. Actor 0 is the host, and the other actors are streams. For each actor, the clock has the number of
// its operations that happened before.
class Clock {
 public:
  uint64_t at(size_t actor) const { return actor < counts_.size() ? counts_[actor] : 0; }
  // Counts an operation of the actor, and returns its time.
  uint64_t advance(size_t actor);
  // Adds to this clock all operations that happened before `other`.
  void join(const Clock& other);

 private:
  std::vector<uint64_t> counts_;
};

// An operation that accesses memory.
struct Accessor {
  size_t actor = 0;
  uint64_t time = 0;
  std::string what;  // "cuMemcpyHtoDAsync_v2 in stream 1"
};

inline bool happened_before(const Accessor& accessor, const Clock& clock) {
  return accessor.time <= clock.at(accessor.actor);
}

struct Conflict {
  Accessor other;
  uint64_t address = 0;  // the first byte of the conflict
  bool other_writes = false;
};

class AccessLog {
 public:
  // Records an access to bytes by an operation with a clock. Returns an earlier access that did not happen before it,
  // if at least one of the two writes.
  std::optional<Conflict> record(uint64_t address, uint64_t bytes, bool write, const Accessor& accessor,
                                 const Clock& clock);
  // Returns an access to the bytes that did not happen before `clock`.
  std::optional<Accessor> find_later(uint64_t address, uint64_t bytes, const Clock& clock) const;
  // Removes the accesses to bytes that were freed.
  void forget(uint64_t address, uint64_t bytes);

 private:
  struct Segment {
    uint64_t end = 0;
    std::optional<Accessor> write;
    std::vector<Accessor> reads;  // since the write, at most one for each actor
  };

  // Divides the segment that contains `address` at this address.
  void cut(uint64_t address);

  std::map<uint64_t, Segment> segments_;  // key: first address; they do not overlap
};

}  // namespace xrun::cuda::fake
