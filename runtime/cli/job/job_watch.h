// Ends a run that has lost a rank, with a message that names the rank, its host and the checkpoint to continue from.
// Also ends a run whose ranks have not all started.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/cli/job/job.h"

namespace xrun::cli {

// Limits the time in which all ranks start. If the object is not destroyed within a minute (two seconds more on ranks
// other than 0), the process ends (XG0842, exit 4), since MPI would wait for a missing rank for ever. `rank`: the
// number that the launcher gave this process.
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

// Connects the ranks and begins to watch them; all ranks call it. An error is the same on all ranks. The run may go on
// after an error, but without a watch.
Status watch_ranks(Job& job);

// The error XG0840 (exit 75) for a lost rank; it replaces errors that the loss has caused on this rank. Nullopt if no
// rank is lost.
std::optional<Error> loss_of(const Job& job);
// Whether this rank prints the loss. Rank 0 does, or rank 1 if rank 0 is lost. A rank that the other ranks regard as
// lost also does.
bool tells_loss(const Job& job);
// Waits up to a second, or until a stop is requested, so that the rank that prints the loss has time to do so. That
// rank may be the last to detect the loss, or be in a long computation, and a launcher ends all ranks of a host soon
// after one of them has ended. So the ranks on its host wait; if work hangs, all ranks wait. Returns true if this rank
// must print the loss itself, because every rank expected another rank to print it, so that the job did not end.
bool waits_in_vain(const Job& job);
// Whether this rank wakes its launcher before it ends (sleeping_launcher.h). After a rank is lost, it does so if it
// prints the loss, or if the rank that prints has another launcher. After a hang it does not, since the launcher does
// not sleep yet.
bool wakes_launcher(const Job& job);

}  // namespace xrun::cli
