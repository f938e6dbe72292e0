// Ends a run that has lost a rank, naming the rank, its host and the checkpoint to go on from; also ends a run whose
// ranks have not all started.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/cli/job.h"

namespace xrun::cli {

// Limits the time in which all ranks start: unless the object is destroyed within a minute (two seconds more on ranks
// other than 0), the process ends (XG0842, exit 4), since MPI would wait for a missing rank for ever. `rank`: the
// number of this process, according to the launcher.
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

// The error XG0840 (exit 75), which replaces errors that the loss has caused on this rank. Nothing if no rank is lost.
std::optional<Error> loss_of(const Job& job);
// Whether this rank prints the loss: rank 0 does, or rank 1 if rank 0 is lost; so does a rank that the others have
// given up.
bool tells_loss(const Job& job);
// Waits up to a second for the rank that prints the loss, or until a stop is requested. That rank may be the last to
// find the loss, or be in a long computation, and a launcher ends all ranks of a host soon after one has ended. So the
// ranks of its host wait, and all ranks if work hangs. If all ranks wait for one another, each may take another one for
// the rank that prints. Returns true if nobody ended the job, so that this rank is to print the loss.
bool waits_in_vain(const Job& job);
// Whether this rank wakes its launcher before it ends (sleeping_launcher.h): a rank is lost, and this rank prints the
// loss or has another launcher than the rank that does. After a hang the launcher does not sleep yet.
bool wakes_launcher(const Job& job);

}  // namespace xrun::cli
