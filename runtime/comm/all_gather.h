// Gathers an array whose parts lie on different ranks to all ranks, in the background while steps run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// The largest number of bytes of a part in one broadcast: small enough for a communicator that copies them, and large
// enough that the fixed cost of a message does not matter.
inline constexpr Bytes kMostBroadcast = 8 * kMiB;

// Threads: one at a time calls `begin`; any calls `wait` and `cancel`.
class AllGather {
 public:
  // The bytes that `rank` contributes. A rank may have several parts or no part.
  struct Part {
    int rank = 0;
    std::span<std::byte> bytes;
  };

  // The communicator outlives the object. REQUIRES: no other object uses the channel at the same time.
  AllGather(Communicator& communicator, int channel);
  // Cancels. Broadcasts under way may still write to the parts, so these must outlive the communicator.
  ~AllGather();
  AllGather(const AllGather&) = delete;
  AllGather& operator=(const AllGather&) = delete;

  // Begins a gather. REQUIRES: all ranks pass the same ranks and sizes; the previous gather has ended.
  void begin(std::vector<Part> parts);
  // Returns when all parts have arrived; at once if no gather was begun. Errors: those of the communicator, the first
  // of which every later call returns again; kInterrupted, cancelled.
  Status wait();
  // Makes all waits return.
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with broadcasts under way
};

}  // namespace xrun::runtime
