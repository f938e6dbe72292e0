// How devices exchange data. An exchange is data: blocks of device memory that a member sends to others, and places
// where it receives theirs. It is posted and completes later by two calls; no task ever waits (docs/determinism.md,
// "Collectives"). Devices of one process use local_communicator.h; docs/adding_a_communicator.md adds another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

// Bytes of a member's memory that go to, or come from, the member on device `peer`.
struct Block {
  int peer = 0;
  DeviceMemory* memory = nullptr;
  Bytes offset = 0;
  Bytes bytes = 0;
};

// One member's part in one exchange, the same in every step. The i-th block that it sends to a device is the i-th that
// this device's member receives from it. A member may send to itself.
struct Exchange {
  int group = 0;  // exchanges with one number belong together, once a step
  int device = 0;
  std::vector<Block> sends;
  std::vector<Block> receives;
};

// Called once. `moving`: how long data of this member were being moved, up to the call.
struct Completion {
  void (*done)(void* context, int32_t argument, Status status, Seconds moving) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// What the ranks of a run agree on at the end of a step.
struct Outcome {
  Status status;      // the error of any rank
  bool stop = false;  // somebody asked for the run to stop
};

// Made for all exchanges of a program that members of this process take part in; each is posted once a step.
// Threads: `post` from any task; `agree` from the thread that runs steps; `broadcast` from any thread, also from one of
// its completions.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Posts the exchange with this index among those that the communicator was made for. Never blocks, and calls neither
  // completion before it returns.
  //   received  when all blocks are in their places; not called where the member receives none
  //   released  when what the member sends may be written over; not called where it sends none
  // Until then nobody else touches those bytes.
  virtual void post(int exchange, Completion received, Completion released) = 0;
  // Brings what the ranks say at the end of a step to one outcome, the same on every rank. Waits for all of them.
  virtual Outcome agree(Outcome mine) = 0;
  // Brings the bytes of rank `root` to all ranks, beside the steps: runtime/comm/all_gather.h sends no more than
  // kMostBroadcast at once. The n-th call with a channel and a root belongs with the n-th such call of every other
  // rank. Never blocks; of the root it may complete before it returns.
  //   done  on the root when the bytes may be written over, on others when they are here. Once, at the latest with an
  //         error when the communicator is destroyed; until then the bytes and its context stay.
  virtual void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) = 0;
};

}  // namespace xrun::runtime
