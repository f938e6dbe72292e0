// Sees within a moment that a rank has died, and within seconds that one is frozen or cannot be reached. Over
// connections of its own each rank says several times a second that it is alive; a connection that closes without a
// word is a death. MPI tells of neither.
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

// The rank for whose sake a run ends.
struct LostRank {
  int rank = 0;     // the own one: the others ended while this one stood still
  std::string how;  // "its connection was closed", "it was silent for 2.5 s"
};

struct WatchOptions {
  Seconds limit = 2.5;    // of silence
  Seconds period = 0.25;  // between two signs of life
  // How long the process may take to end once a rank is lost, and what is called then: a thread may be inside of a long
  // computation, or of a call that does not return.
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
  // Says that this rank ends, so that others take its silence for no fault.
  virtual ~RankWatch() = default;

  // The first rank that this one has lost, or was told of.
  virtual std::optional<LostRank> lost() const = 0;
};

}  // namespace xrun::runtime
