// Ends a run that has lost a rank, with the rank, its host and the checkpoint to go on from, or a run whose ranks have
// not all come up.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/cli/job.h"

namespace xrun::cli {

// Limits the time in which all ranks come up: unless it is destroyed within a minute (two seconds more on ranks other
// than 0), the process ends (XG0842, exit 4), since MPI would wait for a missing rank for ever. `rank`: of this
// process, according to the launcher.
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

// Connects the ranks and begins to watch them; all ranks call it. An error is the same on all ranks and does not end
// the run, which then goes on without a watch.
Status watch_ranks(Job& job);

// The error XG0840 (exit 75), which replaces errors that the loss has caused on this rank; none: no rank is lost.
std::optional<Error> loss_of(const Job& job);
// Whether this rank prints the loss: rank 0 does, or rank 1 where rank 0 is lost, and a rank that the others have given
// up.
bool tells_loss(const Job& job);
// A launcher ends all ranks of its host soon after one has ended, and the rank that prints the loss may be the last to
// find it, or be in a long computation. So a rank of its host, or any one if work hangs, waits a second for it, or
// until it is asked to stop. Where all ranks wait for one another, each may have given up itself, and then each takes
// another one for the one that prints: true if nobody ended the job, and this rank is to print after all.
bool waits_in_vain(const Job& job);
// Whether this rank, when it is about to end, wakes its launcher (sleeping_launcher.h): a rank is lost, and this one
// prints the loss or has another launcher than the rank that does. After a hang the launcher does not sleep yet.
bool wakes_launcher(const Job& job);

}  // namespace xrun::cli
