// The end of a run that has lost a rank: who it was, on which host, and where the run goes on; or that never got all of
// its ranks.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/cli/job.h"

namespace xrun::cli {

// While this is, the ranks of a run come up: ends the process (XG0842, exit 4) if they have not after a minute, since
// MPI waits for the last of them for ever. `rank`: of this process, as the launcher says it.
class StartLimit {
 public:
  StartLimit(const GlobalOptions& options, int rank, int count);
  ~StartLimit();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// Connects the ranks and begins to watch them; all ranks call it. An error is the same on all of them and no reason to
// stop: the run goes on without a watch.
Status watch_ranks(Job& job);

// XG0840 (exit 75), in place of whatever a rank met in consequence; none: no rank is lost.
std::optional<Error> loss_of(const Job& job);
// Whether this rank tells the user of it: one of those that are left does, and one that stood still itself.
bool tells_loss(const Job& job);

}  // namespace xrun::cli
