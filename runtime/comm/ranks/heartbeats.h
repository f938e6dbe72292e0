// When a rank counts as lost that has closed no connection: it has been silent for longer than a limit, as one that is
// frozen, or whose host or link is gone. Times are of any one clock.
#pragma once

#include <optional>
#include <vector>

#include "graph/base/units.h"

namespace xrun::runtime {

// Threads: one.
class Heartbeats {
 public:
  // All ranks but `own` have just been heard.
  Heartbeats(int ranks, int own, Seconds limit, Seconds now);

  // To be called often; gives how long this rank itself stood still before, or 0. It did where more than half of the
  // limit has passed since the last call. The silence of others during that time tells nothing, so it begins anew.
  Seconds tick(Seconds now);
  void heard(int rank, Seconds now);
  // The rank has said that it ends: it is no longer expected.
  void leave(int rank);
  // The rank that has been silent for the longest time, if that is longer than the limit.
  std::optional<int> silent(Seconds now) const;

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
