// Tests: tests/fault_injection/hung_ranks_test.cpp
#include "runtime/cli/job/hang_watch.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/os/clock.h"

namespace xrun::cli {
namespace {

using runtime::Work;
using runtime::WorkReport;
using Cause = runtime::WorkDeadline::Cause;

// Kinds of work in a report that are not values of Work.
constexpr int32_t kMessages = 100;  // this rank is in a call of MPI
constexpr int32_t kOthers = 101;    // this rank waits for other ranks

std::string name_of(const WorkReport& report) {
  switch (report.work) {
    case kMessages:
      return "a call of MPI";
    case kOthers:
      return "waiting for messages of other ranks";
    case static_cast<int32_t>(Work::kOpen):
      return "opening the data";
    case static_cast<int32_t>(Work::kLoad):
      return "loading the checkpoint";
    case static_cast<int32_t>(Work::kSave):
      return "saving the checkpoint";
    case static_cast<int32_t>(Work::kCopy):
      return "copying the checkpoint";
    case static_cast<int32_t>(Work::kData):
      return "reading the data of step " + format_count(report.step);
    case static_cast<int32_t>(Work::kStep):
      return "computing step " + format_count(report.step);
    case static_cast<int32_t>(Work::kEvaluate):
      return "the evaluation";
    default:
      return "preparing the run";
  }
}

}  // namespace

void HangWatch::follow(Seconds timeout, const runtime::DeviceSet& devices, runtime::EventSink* events) {
  const std::lock_guard lock(mutex_);
  deadline_ = std::make_unique<runtime::WorkDeadline>(timeout);
  devices_ = &devices;
  events_ = events;
  if (events != nullptr) {
    teller_ = std::make_unique<Pulse>([this] { tell(); });
  }
}

void HangWatch::leave() {
  teller_ = nullptr;
  const std::lock_guard lock(mutex_);
  deadline_ = nullptr;
  devices_ = nullptr;
  events_ = nullptr;
}

void HangWatch::begin(const runtime::WorkEvent& event) {
  const std::lock_guard lock(mutex_);
  if (deadline_ != nullptr) {
    deadline_->begin(event, system_clock().now());
  }
}

// Finds out whether this rank is late and why. If a device computes, the rank does not wait for others, even if
// messages are in transit. The network polls for messages at least every 10 ms; if it does not, a call of MPI hangs.
WorkReport HangWatch::look() {
  constexpr Seconds kStill = 1;
  const std::lock_guard lock(mutex_);
  const Seconds now = system_clock().now();
  const runtime::Network& network = world_.network();
  if (const int64_t looks = network.looks(); looks != looks_) {
    looks_ = looks;
    moved_ = now;
  }
  if (deadline_ == nullptr) {
    return {};
  }
  const bool computes = std::ranges::any_of(devices_->devices(), [](const auto& device) { return !device->idle(); });
  const Cause cause = now - moved_ > kStill          ? Cause::kMessages
                      : network.waits() && !computes ? Cause::kOthers
                                                     : Cause::kOwn;
  const auto state = deadline_->look(now, cause);
  WorkReport report{
      .work = static_cast<int32_t>(state.work), .step = state.step, .seconds = state.seconds, .usual = state.usual};
  if (cause != Cause::kOwn) {
    report.work = cause == Cause::kOthers ? kOthers : kMessages;
  }
  report.state = state.hangs ? WorkReport::kHangs : state.late ? WorkReport::kLate : WorkReport::kFine;
  return report;
}

void HangWatch::note_late(int rank, const WorkReport& report) {
  const std::lock_guard lock(mutex_);
  if (events_ != nullptr) {
    late_.emplace_back(rank, report);
  }
}

void HangWatch::tell() {
  std::vector<std::pair<int, WorkReport>> late;
  {
    const std::lock_guard lock(mutex_);
    late.swap(late_);
  }
  for (const auto& [rank, report] : late) {
    std::string text = fmt::format("{} holds up the run: {}", world_.name(rank), describe(report));
    if (report.usual > 0) {
      const bool of_step =
          report.work == static_cast<int32_t>(Work::kData) || report.work == static_cast<int32_t>(Work::kStep);
      text += fmt::format("; {} usually takes {}", of_step ? "a step" : "it", format_seconds(report.usual));
    }
    events_->on(runtime::WarnEvent{"XG0844", text});
  }
}

std::string HangWatch::describe(const WorkReport& report) {
  return fmt::format("{} has not ended after {}", name_of(report), format_seconds(report.seconds));
}

}  // namespace xrun::cli
