// Detects at once that a rank has died, and within seconds that one is frozen or cannot be reached; MPI reports
// neither. Each rank sends several heartbeats a second over connections of its own; a connection that closes without a
// farewell means that the rank has died.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/tcp.h"

namespace xrun::runtime {

// The rank whose loss ends the run.
struct LostRank {
  int rank = 0;     // the own rank: the others do not hear it, or ended while it was stopped
  std::string how;  // "its connection was closed", "it was silent for 2.5 s"
};

struct WatchOptions {
  Seconds limit = 2.5;    // the longest silence
  Seconds period = 0.25;  // between two heartbeats
  // If the process has not ended `grace` after a rank was lost, `on_stuck` is called: a thread may be in a long
  // computation, or in a call that does not return.
  Seconds grace = 5;
  std::function<void(const LostRank& lost)> on_stuck = {};
};

// Threads: one makes and destroys it; callbacks come from its own thread.
class RankWatch {
 public:
  // `connections`: to every other rank, by rank (rank_meeting.h). `on_lost` is called once, at most.
  // Errors: kWorld XG0803, no more threads.
  static Result<std::unique_ptr<RankWatch>> start(int rank, std::vector<Socket> connections,
                                                  std::function<void(const LostRank& lost)> on_lost,
                                                  WatchOptions options = {});
  // Tells the others that this rank ends, so that they do not count it as lost.
  virtual ~RankWatch() = default;

  // The first rank that this one has lost, or that another rank has reported as lost.
  virtual std::optional<LostRank> lost() const = 0;
};

}  // namespace xrun::runtime
