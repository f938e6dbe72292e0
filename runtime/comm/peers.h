// The interface through which ranks send each other short texts, errors and requests to stop, apart from exchanges.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// `gather`, `agree` and `broadcast` are collective: all ranks call them in the same order, and each call waits for all
// ranks. If a rank passes an error, the current call of every rank returns that error, even if the ranks are in
// different functions, so that no rank waits for a rank that has given up. If several ranks pass errors, all calls
// return the error of the lowest rank, with rank and host in the message. If a rank passes an error that an earlier
// call has returned, the call returns it at once, without waiting, since all ranks have it already.
// Threads: one.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual int rank() const = 0;
  virtual int count() const = 0;
  virtual std::string name(int rank) const = 0;  // "rank 2 on host b"
  // The number of bytes that this rank has sent to other hosts in exchanges so far. Threads: any.
  virtual Bytes sent_to_hosts() const { return 0; }

  // Returns the texts of all ranks; index: rank.
  virtual Result<std::vector<std::string>> gather(Result<std::string> mine) = 0;
  // Combines the outcomes of all ranks, like Communicator::agree.
  virtual Outcome agree(Outcome mine) = 0;

  Status agree(Status mine) { return agree(Outcome{.status = std::move(mine)}).status; }
  // Returns the text of rank 0; texts of other ranks are ignored, but not their errors.
  Result<std::string> broadcast(Result<std::string> mine) {
    if (mine.ok() && rank() != 0) {
      mine = std::string();
    }
    XRUN_ASSIGN(auto all, gather(std::move(mine)));
    return std::move(all[0]);
  }
};

}  // namespace xrun::runtime
