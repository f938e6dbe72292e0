// Communication between the devices of one process: members publish views, the last arrival makes everybody's pull
// runnable, the last pull completes the operation for all.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/device/device.h"

namespace xrun::runtime {

class LocalCommunicator final : public Communicator {
 public:
  // `members` by group number: how many there are (0: the number is not used).
  LocalCommunicator(const DeviceSet& devices, std::span<const int> members);

  void post(const Exchange& exchange, Completion completion) override;

 private:
  struct Member {
    Exchange exchange;
    Completion completion;
    Status status;
    LocalCommunicator* owner = nullptr;
    int32_t group = 0;
  };
  struct Group {
    std::atomic<int> missing{0};  // members that have not posted
    std::atomic<int> pulling{0};  // members that have not pulled
    std::vector<Member> members;
    std::vector<Pieces> published;
  };

  static void pull_task(void* context, int32_t member);
  void pull(Group& group, Member& member);

  const DeviceSet& devices_;
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace xrun::runtime
