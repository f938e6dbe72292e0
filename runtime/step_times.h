// Where the time of a step went, from the times of its instructions.
#pragma once

#include <span>
#include <vector>

#include "planner/program.h"
#include "runtime/executor.h"

namespace xrun::runtime {

struct StepTimes {
  Seconds seconds = 0;       // from the start of the step to its last instruction
  Seconds compute = 0;       // largest over the devices: instructions of the compute stream
  Seconds exposed_comm = 0;  // largest over the devices: communication under way and no computation
};

class TimeTable {
 public:
  explicit TimeTable(const planner::Program& program);
  StepTimes measure(std::span<const Timing> timings) const;

 private:
  struct Lists {
    std::vector<int32_t> compute;
    std::vector<int32_t> comm;
  };
  std::vector<Lists> devices_;
};

}  // namespace xrun::runtime
