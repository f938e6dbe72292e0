// Communication between the devices of one process: the last of those that a member receives from starts the copying,
// which is a task of the receiving device.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace xrun::runtime {

// A block that is received, and where it is sent from.
struct BlockCopy {
  int sender = 0;  // exchange
  Block from;
  Block to;
};

// What an exchange receives, each block with its other half among the exchanges of its group.
std::vector<BlockCopy> copies_to(std::span<const Exchange> exchanges, const Exchange& receiver);

class LocalCommunicator final : public Communicator {
 public:
  // All members of every group. Devices outlive the communicator.
  LocalCommunicator(const DeviceSet& devices, std::span<const Exchange> exchanges);

  void post(int exchange, Completion received, Completion released) override;
  // There is one rank.
  Outcome agree(Outcome mine) override { return mine; }

 private:
  // One exchange. Counters are set anew by whoever brings them to zero, before the completion.
  struct Member {
    Device* device = nullptr;
    std::vector<BlockCopy> copies;
    std::vector<int> takers;   // exchanges that wait for this one to be posted: those that receive from it, and itself
    std::vector<int> senders;  // exchanges that it receives from
    int posts_needed = 0;
    int pulls_needed = 0;
    std::atomic<int> missing{0};  // exchanges that have to be posted before this one can pull
    std::atomic<int> pulling{0};  // exchanges that have not pulled from this one
    Completion received;
    Completion released;
    LocalCommunicator* owner = nullptr;
  };

  static void pull_task(void* context, int32_t exchange);
  void pull(Member& member);
  static void release(Member& sender, Seconds moving);

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace xrun::runtime
