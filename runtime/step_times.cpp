#include "runtime/step_times.h"

#include <algorithm>

namespace xrun::runtime {

TimeTable::TimeTable(const planner::Program& program) : devices_(static_cast<size_t>(program.devices)) {
  for (const planner::Instruction& instruction : program.instructions) {
    Lists& lists = devices_[static_cast<size_t>(instruction.device)];
    (communicates(instruction) ? lists.comm : lists.compute).push_back(instruction.id.index);
  }
}

StepTimes TimeTable::measure(std::span<const Timing> timings) const {
  StepTimes times;
  for (const Timing& timing : timings) {
    times.seconds = std::max(times.seconds, timing.end);
  }
  for (const Lists& lists : devices_) {
    Seconds compute = 0;
    for (const int32_t id : lists.compute) {
      compute += timings[static_cast<size_t>(id)].end - timings[static_cast<size_t>(id)].begin;
    }
    // Both streams run in order, so their intervals ascend.
    Seconds exposed = 0;
    size_t next = 0;
    double covered = 0;
    for (const int32_t id : lists.comm) {
      const Timing& comm = timings[static_cast<size_t>(id)];
      const double begin = std::max(comm.begin, covered);
      exposed += std::max(0.0, comm.end - begin);
      while (next < lists.compute.size() && timings[static_cast<size_t>(lists.compute[next])].end <= begin) {
        ++next;
      }
      for (size_t i = next; i < lists.compute.size(); ++i) {
        const Timing& busy = timings[static_cast<size_t>(lists.compute[i])];
        if (busy.begin >= comm.end) {
          break;
        }
        exposed -= std::max(0.0, std::min(busy.end, comm.end) - std::max(busy.begin, begin));
      }
      covered = std::max(covered, comm.end);
    }
    times.compute = std::max(times.compute, compute);
    times.exposed_comm = std::max(times.exposed_comm, exposed);
  }
  return times;
}

}  // namespace xrun::runtime
