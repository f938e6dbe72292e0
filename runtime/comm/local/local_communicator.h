// The communicator between the devices of one process. When a member and all members that send to it have been posted,
// a task of the receiving device begins to copy ("pull") the blocks. The exchange goes on when the last copy has ended.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "runtime/comm/block_copies.h"
#include "runtime/comm/communicator.h"

namespace xrun::runtime {

class LocalCommunicator final : public Communicator {
 public:
  // `exchanges` has all members of every group. The devices outlive the communicator.
  LocalCommunicator(const DeviceSet& devices, std::span<const Exchange> exchanges);

  void post(int exchange, Completion received, Completion released) override;
  void resize(std::span<const Exchange> exchanges) override;
  // Returns `mine`, since there is one rank.
  Outcome agree(Outcome mine) override { return mine; }
  void broadcast(int /*channel*/, int /*root*/, std::span<std::byte> /*bytes*/, Completion done) override {
    done.done(done.context, done.argument, {}, 0);
  }

 private:
  // One exchange of a device. The thread that decrements a counter to zero resets it before it calls the completion.
  struct Member {
    Device* device = nullptr;
    std::vector<BlockCopy> copies;
    std::vector<Member*> takers;   // members that cannot pull before this one is posted: this one and its receivers
    std::vector<Member*> senders;  // members that this one receives from
    int posts_needed = 0;
    int pulls_needed = 0;
    std::atomic<int> missing{0};      // members that must be posted before this one can pull
    std::atomic<int> pulling{0};      // members that have not yet pulled from this one
    std::atomic<int64_t> copying{0};  // copies that have not ended, and one for the task that begins them
    std::chrono::steady_clock::time_point begun;
    std::mutex mutex;
    Status error;  // the first error of a copy; guarded by mutex until all copies have ended
    Completion received;
    Completion released;
  };

  static void pull(void* member, int32_t argument);
  static void copied(void* member, Status status);
  static void finish(Member& member);
  static void release(Member& sender, Seconds moving);

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace xrun::runtime
