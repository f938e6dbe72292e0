// Tests: tests/planner/report/page/instructions_json_test.cpp
#include "planner/report/page/memory_curve.h"

#include <algorithm>
#include <map>

namespace xrun::planner {
namespace {

// Returns the time of a change of memory at instruction `place`: its start, or the end of the last instruction.
Seconds time_of(const ProgramTimes& times, int32_t place) {
  const auto& all = times.instructions;
  return place < std::ssize(all) ? all[static_cast<size_t>(place)].start : times.makespan;
}

MemoryCurve curve_of(const Program& program, const ProgramTimes& times, const Arena& arena) {
  MemoryCurve curve{.device = arena.device, .arena = arena.bytes};
  std::map<int32_t, Bytes> change;  // key: index of the instruction with which the sum changes
  for (const Buffer& buffer : program.buffers) {
    if (buffer.device != arena.device || is_mapped(program, buffer)) {
      continue;
    }
    const Bytes bytes = align_up(buffer.bytes);
    if (buffer.persistent) {
      curve.always += bytes;
    } else if (buffer.first_use >= 0) {
      change[buffer.first_use] += bytes;
      change[buffer.last_use + 1] -= bytes;
    }
  }
  curve.points.push_back({0, curve.always});
  curve.peak = curve.always;
  Bytes now = curve.always;
  for (const auto& [place, delta] : change) {
    now += delta;
    // Streams of a device overlap, so starts are not in the order of the program.
    const Seconds time = std::max(curve.points.back().time, time_of(times, place));
    if (now > curve.peak) {
      curve.peak = now;
      curve.peak_time = time;
      curve.at = InstructionId(place);
    }
    if (delta != 0) {
      curve.points.push_back({time, now});
    }
  }
  curve.points.push_back({times.makespan, now});
  return curve;
}

}  // namespace

std::vector<MemoryCurve> memory_curves(const Program& program, const ProgramTimes& times) {
  std::vector<MemoryCurve> curves;
  for (const Arena& arena : program.arenas) {
    curves.push_back(curve_of(program, times, arena));
  }
  return curves;
}

}  // namespace xrun::planner
