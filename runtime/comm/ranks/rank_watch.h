// Detects at once that a rank has died, and within seconds that a rank is frozen or cannot be reached; MPI reports
// neither. Each rank sends several heartbeats a second over TCP connections that serve only this purpose. If a
// connection closes although its rank has not announced its end, the rank has died. Heartbeats also report whether the
// work of a rank is late or hangs.
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

// The callbacks are called on the thread of the watch, and must not wait: meanwhile this rank sends no heartbeats, and
// the other ranks would count it as lost.
struct WatchOptions {
  WatchLimits limits = {};
  // `on_stuck` is called if the process has not ended `grace` seconds after a rank was lost. A thread may then be in a
  // long computation, or in a call that does not return.
  Seconds grace = 5;
  std::function<void(const LostRank& lost)> on_stuck = {};
  // `work` returns the state of this rank's work for each heartbeat; empty: always kFine. `describe`: see WatchRules.
  std::function<WorkReport()> work = {};
  std::function<std::string(const WorkReport& report)> describe = {};
  // Called when the work of a rank, which may be this one, has become late.
  std::function<void(int rank, const WorkReport& report)> on_late = {};
};

// Threads: one creates and destroys it; callbacks come from its own thread.
class RankWatch {
 public:
  // Starts the watch. `connections`: a connection to every other rank (rank_meeting.h); index: rank. `on_lost` is
  // called at most once. Errors: kWorld XG0803, no more threads.
  static Result<std::unique_ptr<RankWatch>> start(int rank, std::vector<Socket> connections,
                                                  std::function<void(const LostRank& lost)> on_lost,
                                                  WatchOptions options = {});
  // Announces the end of this rank to the others, so that they do not count it as lost.
  virtual ~RankWatch() = default;

  // See WatchRules::lost.
  virtual std::optional<LostRank> lost() const = 0;
};

}  // namespace xrun::runtime
