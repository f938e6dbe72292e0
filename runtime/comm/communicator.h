// The interface through which devices exchange data. An exchange is a value: blocks of device memory that a member
// sends, and blocks that it receives into. It is posted and completes by two later calls; no task waits
// (docs/internals/determinism.md, "Collectives"). One process uses local_communicator.h;
// docs/internals/adding_a_communicator.md adds more.
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
  // The offset of the block in the memory of the member that sends it. In one exchange, blocks that this member sends
  // from the same offset to several devices are identical, so another host gets them once. -1: unknown.
  Bytes source = -1;
};

// One member's part in a collective, or in a send and its receive. It is identical in every step, except for
// Communicator::resize. The i-th block that it sends to a device is the i-th that this device's member receives from
// it. A member may send to itself.
struct Exchange {
  int group = 0;  // exchanges with the same number belong together, once per step
  int device = 0;
  std::vector<Block> sends;
  std::vector<Block> receives;
};

// A callback, called once. `moving`: the time during which data of this member were transferred, up to the call.
struct Completion {
  void (*done)(void* context, int32_t argument, Status status, Seconds moving) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// The result on which the ranks of a run agree at the end of a step.
struct Outcome {
  Status status;      // the error of any rank
  bool stop = false;  // whether any rank was asked to stop
};

// Created for all exchanges of a program that belong to devices of this process; each is posted once per step. Threads:
// any task calls `post`; the thread that runs steps calls `agree`; any thread calls `broadcast`, also from one of its
// completions.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Posts the exchange with this index among those that the communicator was created for. Never blocks, and calls
  // neither completion before it returns.
  //   received  called when all blocks are in their places; not called if the member receives no blocks
  //   released  called when the sent blocks may be overwritten; not called if the member sends no blocks
  // REQUIRES: until then no other code accesses received blocks or writes to sent ones.
  virtual void post(int exchange, Completion received, Completion released) = 0;
  // Changes the sizes of all blocks to those of `exchanges`, which are otherwise unchanged. All ranks do this between
  // the same two steps. REQUIRES: no exchange is under way.
  virtual void resize(std::span<const Exchange> exchanges) = 0;
  // Combines the outcomes of all ranks at the end of a step into one, equal on every rank. Waits for all of them.
  virtual Outcome agree(Outcome mine) = 0;
  // Sends the bytes of rank `root` to all ranks, in the background while steps run; runtime/comm/all_gather.h sends at
  // most kMostBroadcast at once. The n-th call with a channel and a root belongs to the n-th such call of every other
  // rank. Never blocks; on the root it may complete before it returns.
  //   done  called once: on the root when the bytes may be overwritten, on others when they have arrived; if the
  //         communicator is destroyed before that, with an error. Bytes and context stay valid until then.
  virtual void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) = 0;
};

}  // namespace xrun::runtime
