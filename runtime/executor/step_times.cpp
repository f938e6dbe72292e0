// The time of an exchange on a device is divided as follows. Until all other members have posted their exchanges, it is
// idle time. After that, until the data of all members have been moved, it is communication. A member moves its data on
// its own device when that is free, so members of one group may move their data at different times.
#include "runtime/executor/step_times.h"

#include <algorithm>
#include <set>

#include "runtime/executor/exchanges.h"

namespace xrun::runtime {
namespace {

// Converts any list of spans to disjoint ascending spans, in place.
template <typename Spans>
void unite(Spans& spans) {
  std::sort(spans.begin(), spans.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (kept > 0 && spans[i].begin <= spans[kept - 1].end) {
      spans[kept - 1].end = std::max(spans[kept - 1].end, spans[i].end);
    } else {
      spans[kept++] = spans[i];
    }
  }
  spans.resize(kept);
}

template <typename Spans>
Seconds length(const Spans& spans) {
  Seconds sum = 0;
  for (const auto& span : spans) {
    sum += span.end - span.begin;
  }
  return sum;
}

// Returns the total length of the intersection of two lists of disjoint ascending spans.
template <typename Spans>
Seconds common(const Spans& a, const Spans& b) {
  Seconds sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].begin, b[j].begin));
    a[i].end < b[j].end ? ++i : ++j;
  }
  return sum;
}

}  // namespace

TimeTable::TimeTable(const planner::Program& program, DeviceRange own)
    : own_(own), lists_(static_cast<size_t>(program.devices)) {
  for (const planner::Instruction& instruction : program.instructions) {
    if (!communicates(instruction.kind)) {
      lists_[static_cast<size_t>(instruction.device)].compute.push_back(instruction.id.index);
    }
  }
  for (const auto& members : groups_of(program)) {
    std::set<int> devices;
    for (const planner::InstructionId id : members) {
      devices.insert(program.instruction(id).device);
    }
    for (const int device : devices) {
      for (const planner::InstructionId id : members) {
        lists_[static_cast<size_t>(device)].comm.push_back(id.index);
      }
    }
  }
  times_.devices.resize(lists_.size());
  size_t most_compute = 0;
  size_t most_comm = 0;
  for (const Lists& lists : lists_) {
    most_compute = std::max(most_compute, lists.compute.size());
    most_comm = std::max(most_comm, lists.comm.size());
  }
  busy_.reserve(most_compute);
  moving_.reserve(most_comm);
}

const StepTimes& TimeTable::measure(std::span<const Timing> timings) {
  times_.seconds = 0;
  for (const Timing& timing : timings) {
    times_.seconds = std::max(times_.seconds, timing.end);
  }
  for (int device = own_.first; device < own_.first + own_.count; ++device) {
    const auto d = static_cast<size_t>(device);
    busy_.clear();
    for (const int32_t id : lists_[d].compute) {
      const Timing& one = timings[static_cast<size_t>(id)];
      busy_.push_back({one.begin, one.end});
    }
    moving_.clear();
    for (const int32_t id : lists_[d].comm) {
      const Timing& one = timings[static_cast<size_t>(id)];
      moving_.push_back({one.moving, one.moved});
    }
    unite(busy_);
    unite(moving_);
    DeviceTimes& times = times_.devices[d];
    times.busy = length(busy_);
    times.exposed_comm = length(moving_) - common(busy_, moving_);
    times.idle = std::max(0.0, times_.seconds - times.busy - times.exposed_comm);
  }
  return times_;
}

}  // namespace xrun::runtime
