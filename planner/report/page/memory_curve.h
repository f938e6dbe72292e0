// The memory of each device during a step, as the sum of its live buffers over time.
#pragma once

#include <vector>

#include "planner/cost/simulate.h"
#include "planner/program/program.h"

namespace xrun::planner {

// The device uses `bytes` from `time` until the time of the next point.
struct MemoryPoint {
  Seconds time = 0;
  Bytes bytes = 0;
};

struct MemoryCurve {
  int device = 0;    // kHost: the loader's batches
  Bytes arena = 0;   // allocated bytes, with the gaps between buffers
  Bytes always = 0;  // bytes of the buffers that live across steps
  std::vector<MemoryPoint> points;
  Bytes peak = 0;         // largest sum: Arena::live_max
  Seconds peak_time = 0;  // first time at which the sum is that large
  InstructionId at;       // instruction with which the peak begins; invalid: the sum never changes
};

// Returns a curve for each arena of a program, whose times are those of `times`. A buffer lives from the start of the
// first instruction that uses it to the end of the last one, in the order of the program: memory is planned by that
// order, so a curve is never below what the device uses at that time.
std::vector<MemoryCurve> memory_curves(const Program& program, const ProgramTimes& times);

}  // namespace xrun::planner
