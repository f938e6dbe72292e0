// Detects at once that a rank has died, and within seconds that one is frozen or cannot be reached; MPI reports
// neither. Each rank sends several heartbeats a second over connections of its own; a connection that closes without a
// farewell means that the rank has died. Heartbeats also say whether the work of a rank is late or hangs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/ranks/tcp.h"
#include "runtime/comm/ranks/watch_rules.h"

namespace xrun::runtime {

// The callbacks come from the thread of the watch and must not wait: without heartbeats this rank is lost.
struct WatchOptions {
  WatchLimits limits = {};
  // If the process has not ended `grace` after a rank was lost, `on_stuck` is called: a thread may be in a long
  // computation, or in a call that does not return.
  Seconds grace = 5;
  std::function<void(const LostRank& lost)> on_stuck = {};
  // Returns the work of this rank, for each heartbeat; null: it is always fine. `describe`: see WatchRules.
  std::function<WorkReport()> work = {};
  std::function<std::string(const WorkReport& report)> describe = {};
  // Called when the work of a rank, also of this one, has become late.
  std::function<void(int rank, const WorkReport& report)> on_late = {};
};

// Threads: one creates and destroys it; callbacks come from its own thread.
class RankWatch {
 public:
  // `connections`: to every other rank; index: rank (rank_meeting.h). `on_lost` is called at most once.
  // Errors: kWorld XG0803, no more threads.
  static Result<std::unique_ptr<RankWatch>> start(int rank, std::vector<Socket> connections,
                                                  std::function<void(const LostRank& lost)> on_lost,
                                                  WatchOptions options = {});
  // Informs the others that this rank ends, so that they do not count it as lost.
  virtual ~RankWatch() = default;

  // See WatchRules::lost.
  virtual std::optional<LostRank> lost() const = 0;
};

}  // namespace xrun::runtime
