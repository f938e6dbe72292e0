// Gathers an array whose parts are on different ranks: afterwards all ranks have the whole array. The gather runs in
// the background while steps run.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// The largest number of bytes in one broadcast; longer parts take several. It is small enough for a communicator that
// copies the bytes, and large enough that the fixed cost of a message does not matter.
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
  // Cancels the gather. Broadcasts under way may still write to the parts, so the parts must outlive the communicator.
  ~AllGather();
  AllGather(const AllGather&) = delete;
  AllGather& operator=(const AllGather&) = delete;

  // Begins a gather of `parts`. Each rank has filled its own parts, and receives the parts of other ranks. REQUIRES:
  // all ranks pass parts with equal ranks and sizes; the previous gather has ended.
  void begin(std::vector<Part> parts);
  // Returns when all parts have arrived, or at once if no gather was begun. Errors: those of the communicator; after
  // the first error all later calls return it again; kInterrupted after `cancel`.
  Status wait();
  // Makes all calls of `wait` return.
  void cancel();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the completions of broadcasts under way
};

}  // namespace xrun::runtime
