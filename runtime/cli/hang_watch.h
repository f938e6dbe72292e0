// Tells the watch over ranks what this rank is doing and whether that hangs, and the user which rank is late.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/progress.h"
#include "runtime/comm/ranks/rank_watch.h"
#include "runtime/comm/ranks/world.h"
#include "runtime/device/device.h"
#include "runtime/train/events.h"
#include "runtime/train/work_deadline.h"

namespace xrun::cli {

// Threads: the trainer's calls `follow`, `leave` and `begin`; that of the watch calls `look` and `note_late`. None of
// them waits.
class HangWatch {
 public:
  // `world` outlives the object.
  explicit HangWatch(const runtime::World& world) : world_(world) {}

  // From now on, until `leave`, the work of this rank is watched: see WorkDeadline for `timeout`. Late work of any rank
  // goes to `events`, on a thread of its own, since a sink may write to the disk that hangs; null: another rank tells
  // it.
  void follow(Seconds timeout, const runtime::DeviceSet& devices, runtime::EventSink* events);
  void leave();
  void begin(const runtime::WorkEvent& event);

  runtime::WorkReport look();
  void note_late(int rank, const runtime::WorkReport& report);

  // "reading the data of step 12 has not ended after 10 min"
  static std::string describe(const runtime::WorkReport& report);

 private:
  void tell();

  const runtime::World& world_;
  std::mutex mutex_;                                 // of all below but `teller_`
  std::unique_ptr<runtime::WorkDeadline> deadline_;  // null: not watched
  const runtime::DeviceSet* devices_ = nullptr;
  runtime::EventSink* events_ = nullptr;
  int64_t looks_ = 0;  // of the network, and when their number changed last
  Seconds moved_ = 0;
  std::vector<std::pair<int, runtime::WorkReport>> late_;
  std::unique_ptr<Pulse> teller_;
};

// Has the watch follow the work of this rank while it lives.
class WatchedWork {
 public:
  // `hangs` may be null.
  WatchedWork(HangWatch* hangs, Seconds timeout, const runtime::DeviceSet& devices, runtime::EventSink* events)
      : hangs_(hangs) {
    if (hangs_ != nullptr) {
      hangs_->follow(timeout, devices, events);
    }
  }
  ~WatchedWork() {
    if (hangs_ != nullptr) {
      hangs_->leave();
    }
  }
  WatchedWork(const WatchedWork&) = delete;
  WatchedWork& operator=(const WatchedWork&) = delete;

 private:
  HangWatch* hangs_;
};

}  // namespace xrun::cli
