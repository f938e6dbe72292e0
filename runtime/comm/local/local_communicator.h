// Communication between the devices of one process: the last of those that a member receives from starts the copying,
// which is a task of the receiving device.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/block_copies.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

class LocalCommunicator final : public Communicator {
 public:
  // All members of every group. Devices outlive the communicator.
  LocalCommunicator(const DeviceSet& devices, std::span<const Exchange> exchanges);

  void post(int exchange, Completion received, Completion released) override;
  // There is one rank.
  Outcome agree(Outcome mine) override { return mine; }
  void broadcast(int /*channel*/, int /*root*/, std::span<std::byte> /*bytes*/, Completion done) override {
    done.done(done.context, done.argument, {}, 0);
  }

 private:
  // One exchange. Counters are set anew by whoever brings them to zero, before the completion.
  struct Member {
    Device* device = nullptr;
    std::vector<BlockCopy> copies;
    std::vector<Member*> takers;   // who waits for this one to be posted: those that receive from it, and itself
    std::vector<Member*> senders;  // that it receives from
    int posts_needed = 0;
    int pulls_needed = 0;
    std::atomic<int> missing{0};  // exchanges that have to be posted before this one can pull
    std::atomic<int> pulling{0};  // exchanges that have not pulled from this one
    Completion received;
    Completion released;
  };

  static void pull(void* member, int32_t argument);
  static void release(Member& sender, Seconds moving);

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace xrun::runtime
