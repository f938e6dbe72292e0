// Reports hanging work of this rank to the watch over all ranks, and reports to the user which rank is late.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "runtime/cli/progress/progress.h"
#include "runtime/comm/ranks/rank_watch.h"
#include "runtime/comm/ranks/world.h"
#include "runtime/device/device.h"
#include "runtime/train/events/events.h"
#include "runtime/train/watch/work_deadline.h"

namespace xrun::cli {

// Threads: the trainer's thread calls `follow`, `leave` and `begin`; the thread of the watch calls `look` and
// `note_late`. No function waits.
class HangWatch {
 public:
  // `world` outlives the object.
  explicit HangWatch(const runtime::World& world) : world_(world) {}

  // Watches the work of this rank until `leave`; see WorkDeadline for `timeout`. Late work of any rank is reported to
  // `events`; if `events` is null, another rank reports it. A separate thread makes the report, since a sink may write
  // to the disk that hangs.
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
  std::mutex mutex_;                                 // guards all members below but `teller_`
  std::unique_ptr<runtime::WorkDeadline> deadline_;  // null: the work is not watched
  const runtime::DeviceSet* devices_ = nullptr;
  runtime::EventSink* events_ = nullptr;
  int64_t looks_ = 0;  // number of times that the network has polled for messages; it last changed at `moved_`
  Seconds moved_ = 0;
  std::vector<std::pair<int, runtime::WorkReport>> late_;
  std::unique_ptr<Pulse> teller_;
};

// Makes the watch follow the work of this rank while the object exists.
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
