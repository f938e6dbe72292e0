// Tests: tests/planner/verify/verify_program_test.cpp
#include <map>

#include "planner/verify/verify_parts.h"

namespace xrun::planner {

Status verify_pipeline(const Program& program) {
  constexpr int kMostWarmUp = 1 << 20;  // that of the setting `pipeline`
  std::map<int, int> counts;            // stages of each device
  for (const Stage& stage : program.stages) {
    for (const int device : stage.devices) {
      ++counts[device];
    }
  }
  const int chunks = counts.empty() ? 1 : counts.begin()->second;
  const bool is_legal = program.schedule == PipelineKind::kInterleaved ? chunks > 1
                        : program.schedule == PipelineKind::kZbV       ? chunks == 2
                                                                       : chunks == 1;
  for (const auto& [device, count] : counts) {
    if (!is_legal || count != chunks) {
      return wrong("device {} has {} of the stages, which {} does not put on it", device, count,
                   word_of(program.schedule));
    }
  }
  return inside(program.warm_up, 0, kMostWarmUp + 1) ? Status() : wrong("a warm-up of {} passes", program.warm_up);
}

}  // namespace xrun::planner
