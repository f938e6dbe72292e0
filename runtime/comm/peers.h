// What the ranks of a run tell one another beside its exchanges: small texts, errors, and the wish to stop.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// Every call but the names is made by all ranks, in the same order, and waits for all of them. If any rank says an
// error in a call, every rank gets that error from its own call, whichever call that is, so that no rank waits for one
// that has given up. Of several errors in one call, that of the lowest rank wins. Its message names rank and host. An
// error that a call has given comes back at once from a call that it is said in: all ranks know it.
// Threads: one.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;
  virtual std::string name(int rank) const = 0;  // "rank 2 on host b"

  // The texts of all ranks, by rank.
  virtual Result<std::vector<std::string>> gather(Result<std::string> mine) = 0;
  // What the ranks say at the end of a step, as Communicator::agree.
  virtual Outcome agree(Outcome mine) = 0;

  Status agree(Status mine) { return agree(Outcome{.status = std::move(mine)}).status; }
  // The text of rank 0; what others give is not looked at, unless it is an error.
  Result<std::string> broadcast(Result<std::string> mine) {
    if (mine.ok() && rank() != 0) {
      mine = std::string();
    }
    XRUN_ASSIGN(auto all, gather(std::move(mine)));
    return std::move(all[0]);
  }
};

}  // namespace xrun::runtime
