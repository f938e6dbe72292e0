// The interface through which devices exchange data. An exchange describes the blocks of memory that a device sends and
// the blocks that it receives. A task posts an exchange and does not wait for it: two callbacks report that the blocks
// were received, and that the sent blocks may be overwritten (docs/internals/determinism.md, "Collectives").
// local_communicator.h implements the interface for one process, ranks/rank_communicator.h for several;
// docs/internals/adding_a_communicator.md explains how to add another implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

// A range of memory that a member of an exchange sends to, or receives from, the member on device `peer`.
struct Block {
  int peer = 0;
  DeviceMemory* memory = nullptr;  // memory of this member, at `offset`
  Bytes offset = 0;
  Bytes bytes = 0;
  // The offset of the block in the memory of the member that sends it. In one exchange, blocks that one member sends
  // from the same offset to several devices are identical, so they are sent to another host only once. -1: unknown.
  Bytes source = -1;
};

// The part of one device (a member) in a collective, or in a send with its receive. It is the same in every step,
// except that Communicator::resize changes sizes. The i-th block that a member sends to a device is the i-th block that
// the member on that device receives from the sender. A member may send to itself.
struct Exchange {
  int group = 0;  // number of the collective; the exchanges of its members have the same number
  int device = 0;
  std::vector<Block> sends;
  std::vector<Block> receives;
};

// A callback, called once. `moving`: the time during which data of this member were transferred, until the call.
struct Completion {
  void (*done)(void* context, int32_t argument, Status status, Seconds moving) = nullptr;
  void* context = nullptr;
  int32_t argument = 0;
};

// The result of a step. The ranks of a run combine their outcomes (Communicator::agree) into one for all ranks.
struct Outcome {
  Status status;         // an error of any rank, or OK
  bool stop = false;     // whether any rank was asked to stop
  bool skipped = false;  // whether any rank has skipped the update of the step
};

// Carries out the exchanges of a program that belong to devices of this process; each is posted once per step. Threads:
// any task calls `post`; the thread that runs steps calls `agree` and `resize`; any thread calls `broadcast`, which may
// also be called in the completion of a broadcast.
class Communicator {
 public:
  virtual ~Communicator() = default;
  // Starts an exchange. `exchange`: its index in the list that the communicator was created with. Never blocks. Both
  // completions are called after it has returned.
  //   received  called when all blocks are in their places; not called if the member receives no blocks
  //   released  called when the sent blocks may be overwritten; not called if the member sends no blocks
  // REQUIRES: no other code accesses the received blocks before `received`, or writes to sent blocks before `released`.
  virtual void post(int exchange, Completion received, Completion released) = 0;
  // Changes the sizes of blocks. `exchanges`: the list that the communicator was created with, with new sizes. All
  // ranks make this call between the same two steps. REQUIRES: no exchange is under way.
  virtual void resize(std::span<const Exchange> exchanges) = 0;
  // Combines the outcomes of all ranks at the end of a step into one, which is returned on every rank. Waits for all
  // ranks.
  virtual Outcome agree(Outcome mine) = 0;
  // Sends bytes from rank `root` to all ranks in the background while steps run. All ranks call it: the n-th call with
  // a channel and a root on one rank belongs to the n-th such call on every other rank. Never blocks. For more than
  // kMostBroadcast bytes, use runtime/comm/all_gather.h.
  //   bytes  on the root, the bytes to send; on other ranks, the memory that receives them
  //   done   called once: on the root when the bytes may be overwritten, which may be before `broadcast` returns; on
  //          other ranks when the bytes have arrived; with an error if the communicator is destroyed before that. Bytes
  //          and context stay valid until the call
  virtual void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) = 0;
};

}  // namespace xrun::runtime
