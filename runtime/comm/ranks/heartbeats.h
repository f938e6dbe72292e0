// Detects lost ranks whose connections are still open: if a rank is frozen, or its host or link has failed, nothing is
// heard from it for longer than a limit. All times come from one clock.
#pragma once

#include <optional>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// Threads: one.
class Heartbeats {
 public:
  // `own` is this rank. All other ranks count as heard at `now`.
  Heartbeats(int ranks, int own, Seconds limit, Seconds now);

  // Call often. If more than half of the limit has passed since the last call, this rank itself was suspended: returns
  // that time, and counts all other ranks as heard at `now`. Otherwise returns 0.
  Seconds tick(Seconds now);
  // Call when something has arrived from the rank.
  void heard(int rank, Seconds now);
  // Call when the rank has announced its end: it is no longer expected to send anything.
  void leave(int rank);
  // Returns the rank that has been silent for the longest time; nullopt if that time is within the limit.
  std::optional<int> silent(Seconds now) const;
  // The number of ranks that have not left; and whether all of them have been silent for longer than `time`.
  int expected() const;
  bool all_silent(Seconds now, Seconds time) const;

 private:
  struct Rank {
    Seconds heard = 0;
    bool expected = true;
  };

  Seconds limit_;
  Seconds ticked_;
  std::vector<Rank> ranks_;
};

}  // namespace xrun::runtime
