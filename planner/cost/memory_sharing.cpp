// Tests: tests/planner/cost/memory_sharing_test.cpp
#include "planner/cost/memory_sharing.h"

#include <algorithm>

namespace xrun::planner {
namespace {

// The number of workers that fill the bandwidth of a node if it was not measured. On two cores of
// Intel Xeon (Sapphire Rapids), a[i] += b[i] / 2 moves 22.2 GB/s with one worker and 21.7 GB/s with each of two
// workers, so that two do not slow one another. For more cores the number is assumed: 22 GB/s is about the rate of a
// channel of DDR4-2933 memory, and a processor for servers has eight of them.
constexpr double kFilling = 8;

}  // namespace

int streaming_workers(const Program& program, const Instruction& instruction) {
  const auto device = static_cast<size_t>(instruction.device);
  switch (instruction.kind) {
    case Kind::kFoldPartials:
    case Kind::kSumReplicas:
    case Kind::kNorm:
    case Kind::kUpdate:
    case Kind::kSumTied:
      return device < program.threads.size() ? program.threads[device] : 1;
    case Kind::kCopy:
    case Kind::kReduceDx:
    case Kind::kSumDx:
      return 1;  // their predicted times count one worker (planner/cost/durations.cpp)
    default:
      return 0;
  }
}

double memory_slowness(const Machine& machine, int workers) {
  const double filling = machine.filling_workers > 0 ? machine.filling_workers : kFilling;
  return machine.has_gpus() ? 1.0 : std::max(1.0, workers / filling);
}

}  // namespace xrun::planner
