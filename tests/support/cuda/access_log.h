// Who accessed which bytes last, and whether two accesses are ordered: vector clocks of the host and of streams.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace xrun::cuda::fake {

// The host is actor 0, streams are the others. A clock has, for each actor, the count of its operations that happened
// before.
class Clock {
 public:
  uint64_t at(size_t actor) const { return actor < counts_.size() ? counts_[actor] : 0; }
  // Counts an operation of the actor, and returns its time.
  uint64_t advance(size_t actor);
  // Everything that happened before `other` happened before this too.
  void join(const Clock& other);

 private:
  std::vector<uint64_t> counts_;
};

// An operation that accesses memory.
struct Who {
  size_t actor = 0;
  uint64_t time = 0;
  std::string what;  // "cuMemcpyHtoDAsync_v2 in stream 1"
};

inline bool happened_before(const Who& who, const Clock& clock) { return who.time <= clock.at(who.actor); }

struct Conflict {
  Who other;
  uint64_t address = 0;  // the first byte of the conflict
  bool other_writes = false;
};

class AccessLog {
 public:
  // Records an access to bytes by an operation that knows `clock`. Returns an earlier access, at least one of the two
  // writing, that did not happen before it.
  std::optional<Conflict> record(uint64_t address, uint64_t bytes, bool write, const Who& who, const Clock& clock);
  // Returns an access to the bytes that did not happen before `clock`.
  std::optional<Who> find_later(uint64_t address, uint64_t bytes, const Clock& clock) const;
  void forget(uint64_t address, uint64_t bytes);

 private:
  struct Segment {
    uint64_t end = 0;
    std::optional<Who> write;
    std::vector<Who> reads;  // since the write, at most one for each actor
  };

  // Cuts the segment that contains `address` there.
  void cut(uint64_t address);

  std::map<uint64_t, Segment> segments_;  // key: first address; they do not overlap
};

}  // namespace xrun::cuda::fake
