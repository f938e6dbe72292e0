// Measures the overhead of the parallel executor with steps whose instructions do nothing. s/instruction is the time of
// a step divided by its number of instructions.
#include <benchmark/benchmark.h>

#include "runtime/comm/local/local_communicator.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/executor/executor.h"
#include "tests/support/instruction_backend.h"

namespace xrun::runtime {
namespace {

using planner::Instruction;
using planner::InstructionId;
using planner::Kind;
using planner::Program;

class Idle final : public testing::InstructionBackend {
 public:
  Status compute(const Instruction& /*instruction*/, ops::Workers& /*workers*/) override { return {}; }
};

Program make_program(int devices) {
  Program program;
  program.devices = devices;
  program.threads.assign(static_cast<size_t>(devices), 1);
  return program;
}

void add(Program& program, int device, std::vector<InstructionId> deps) {
  Instruction one;
  one.id = InstructionId(program.instructions.size());
  one.kind = Kind::kForward;
  one.device = device;
  one.deps = std::move(deps);
  program.instructions.push_back(std::move(one));
}

void run_steps(benchmark::State& state, const Program& program) {
  const auto devices = make_cpu_devices(program.threads);
  LocalCommunicator communicator(*devices, {});
  Idle runner;
  runner.set_devices(*devices, program);
  const auto executor = make_parallel_executor(program, runner, communicator);
  executor->measure(false);
  for (auto _ : state) {
    if (!executor->step().ok()) {
      state.SkipWithError("the step failed");
    }
  }
  const auto instructions = static_cast<double>(program.instructions.size());
  state.counters["s/instruction"] =
      benchmark::Counter(instructions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// A thousand instructions in one stream, each of which depends on the one before it.
void StepOfAThousandOnOneDevice(benchmark::State& state) {
  Program program = make_program(1);
  for (int i = 0; i < 1000; ++i) {
    add(program, 0, {});
  }
  run_steps(state, program);
}

// Each instruction depends on one on the other device, so two devices alternate. The thread of the waiting device may
// have gone to sleep.
void HandOverBetweenTwoDevices(benchmark::State& state) {
  Program program = make_program(2);
  for (int i = 0; i < 200; ++i) {
    add(program, i % 2, i == 0 ? std::vector<InstructionId>{} : std::vector<InstructionId>{InstructionId(i - 1)});
  }
  run_steps(state, program);
}

// Ten rounds: one instruction, then one on each of D devices that depends on it, then one that depends on all of these.
void FanOutToDevices(benchmark::State& state) {
  const int devices = static_cast<int>(state.range(0));
  Program program = make_program(devices);
  std::vector<InstructionId> last;
  for (int round = 0; round < 10; ++round) {
    add(program, 0, last);
    const InstructionId root = program.instructions.back().id;
    last.clear();
    for (int d = 1; d < devices; ++d) {
      add(program, d, {root});
      last.push_back(program.instructions.back().id);
    }
  }
  run_steps(state, program);
}

BENCHMARK(StepOfAThousandOnOneDevice)->UseRealTime();
BENCHMARK(HandOverBetweenTwoDevices)->UseRealTime();
BENCHMARK(FanOutToDevices)->Arg(2)->Arg(16)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace xrun::runtime
