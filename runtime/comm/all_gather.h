// Brings the parts of an array, each of which one rank has, to all ranks, beside the steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// Of a part, so many bytes are sent at once: a communicator that copies needs memory for this, and a message is long
// beside what it costs to begin one.
inline constexpr Bytes kMostBroadcast = 8 * kMiB;

// Threads: one begins; any may wait and cancel.
class AllGather {
 public:
  // Bytes that `rank` has. Ranks may have several parts, or none.
  struct Part {
    int rank = 0;
    std::span<std::byte> bytes;
  };

  // The communicator outlives the object. On a channel, one object at a time.
  AllGather(Communicator& communicator, int channel);
  // Cancels. What is under way may still write to the parts, which therefore outlive the communicator.
  ~AllGather();
  AllGather(const AllGather&) = delete;
  AllGather& operator=(const AllGather&) = delete;

  // Begins, with the same ranks and sizes on all ranks. REQUIRES: what was begun before has ended.
  void begin(std::vector<Part> parts);
  // Returns when all parts are here; at once where nothing was begun. Errors: those of the communicator, the first of
  // them again in every later call; kInterrupted, cancelled.
  Status wait();
  // Ends all waits.
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;  // also of what is under way
};

}  // namespace xrun::runtime
