// Splits the time of a step on each device into compute, communication and idle time.
#pragma once

#include <span>
#include <vector>

#include "planner/program/program.h"
#include "runtime/executor/executor.h"

namespace xrun::runtime {

// The time of one device from the start of a step to its last instruction, in three parts that add up to that time.
struct DeviceTimes {
  Seconds busy = 0;          // time during which an instruction computes
  Seconds exposed_comm = 0;  // nothing computes, and data of the device's exchanges are being moved
  Seconds idle = 0;          // the remaining time: the device waits for another device, or has no work (the bubble)
};

struct StepTimes {
  Seconds seconds = 0;               // from the start of the step to its last instruction
  std::vector<DeviceTimes> devices;  // index: device of the program; all times are 0 for devices of other ranks
};

// The devices of this rank: [first, first + count).
struct DeviceRange {
  int first = 0;
  int count = 0;
};

// Threads: one.
class TimeTable {
 public:
  TimeTable(const planner::Program& program, DeviceRange own);
  // Returns the times of a step. The result is valid until the next call. Allocates nothing from the second call on.
  const StepTimes& measure(std::span<const Timing> timings);

 private:
  struct Span {
    double begin = 0;
    double end = 0;
  };
  struct Lists {
    std::vector<int32_t> compute;
    std::vector<int32_t> comm;  // exchanges of all members of the device's groups
  };
  DeviceRange own_;
  std::vector<Lists> lists_;  // index: device
  std::vector<Span> busy_;
  std::vector<Span> moving_;
  StepTimes times_;
};

}  // namespace xrun::runtime
