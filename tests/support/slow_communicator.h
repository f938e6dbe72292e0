// Wraps a communicator so that this rank's broadcasts are sent late or never. Single bytes are sent at once, and all
// other calls go to the wrapped communicator.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/comm/communicator.h"

namespace xrun::runtime::testing {

class SlowCommunicator final : public Communicator {
 public:
  static constexpr std::chrono::milliseconds kNever{-1};

  SlowCommunicator(std::unique_ptr<Communicator> behind, int rank, std::chrono::milliseconds delay)
      : behind_(std::move(behind)), rank_(rank), delay_(delay) {}
  ~SlowCommunicator() override {
    ended_ = true;
    for (std::thread& sender : senders_) {
      sender.join();
    }
    for (const Completion& one : kept_) {
      one.done(one.context, one.argument, Error{ErrorKind::kWorld, "", "it was never sent"}, 0);
    }
  }

  void post(int exchange, Completion received, Completion released) override {
    behind_->post(exchange, received, released);
  }
  void resize(std::span<const Exchange> exchanges) override { behind_->resize(exchanges); }
  Outcome agree(Outcome mine) override { return behind_->agree(std::move(mine)); }
  void broadcast(int channel, int root, std::span<std::byte> bytes, Completion done) override {
    if (root != rank_ || bytes.size() == 1) {
      behind_->broadcast(channel, root, bytes, done);
      return;
    }
    const std::lock_guard lock(mutex_);
    if (delay_ == kNever) {
      kept_.push_back(done);
      return;
    }
    senders_.emplace_back([=, this] {
      const auto due = std::chrono::steady_clock::now() + delay_;
      while (!ended_ && std::chrono::steady_clock::now() < due) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      behind_->broadcast(channel, root, bytes, done);
    });
  }

 private:
  std::unique_ptr<Communicator> behind_;
  int rank_;
  std::chrono::milliseconds delay_;
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;  // guards the two members below
  std::vector<std::thread> senders_;
  std::vector<Completion> kept_;
};

}  // namespace xrun::runtime::testing
