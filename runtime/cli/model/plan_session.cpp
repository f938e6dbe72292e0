// Tests: tests/runtime/cli/commands/command_test.cpp, tests/cases/gpu_runs_test.cpp
#include "runtime/cli/model/plan_session.h"

#include <algorithm>

#include "planner/program/run_memory.h"
#include "planner/report/summary.h"
#include "runtime/cli/model/machine_gpus.h"
#include "runtime/device/cpu/cpu_device.h"

namespace xrun::cli {
namespace {

std::vector<runtime::Timing> predicted_timings(const planner::Program& program, const planner::ProgramTimes& times) {
  std::vector<runtime::Timing> timings;
  for (size_t i = 0; i < times.instructions.size(); ++i) {
    const planner::InstructionTime& one = times.instructions[i];
    // The members of an exchange end together. Each waits for the last of them before its data moves.
    const Seconds moving = std::max(one.start, one.end - program.instructions[i].predicted);
    timings.push_back({.begin = one.start, .end = one.end, .moving = moving, .moved = one.end});
  }
  return timings;
}

// The memory that each device needs: that of the program and, in a training, that of evaluations.
std::vector<Bytes> memory_of_gpus(const PlannedModel& planned, const planner::Program& program) {
  const planner::Plan& plan = planned.plan;
  if (&program == &plan.training) {
    return planner::run_memory(planned.prepared.training, plan.training, plan.inference).devices;
  }
  std::vector<Bytes> devices(static_cast<size_t>(program.devices), 0);
  for (const planner::Arena& arena : program.arenas) {
    if (arena.device != planner::kHost) {
      devices[static_cast<size_t>(arena.device)] += arena.bytes;
    }
  }
  return devices;
}

}  // namespace

runtime::StepPrediction predicted_step(const planner::Plan& plan) {
  return {plan.predicted.step, predicted_timings(plan.training, planner::times_of(plan.training, plan.machine))};
}

std::vector<runtime::SmallerStep> smaller_steps(const planner::Plan& plan) {
  std::vector<runtime::SmallerStep> steps;
  for (const planner::StepProgram& one : plan.smaller) {
    steps.push_back(
        {.units = one.units,
         .program = &one.program,
         .predicted = {one.step, predicted_timings(one.program, planner::times_of(one.program, plan.machine))}});
  }
  return steps;
}

Result<std::unique_ptr<runtime::DeviceSet>> start_devices(const PlannedModel& planned, const planner::Program& program,
                                                          int rank, const std::vector<int>& neighbours) {
  if (!program.gpu.empty()) {
    return start_gpus(planned.plan, memory_of_gpus(planned, program), planned.workers());
  }
  std::vector<int> of_host;  // number of workers of each device of the ranks on these processors
  std::vector<int> threads;
  int first = 0;
  size_t before = 0;
  for (int device = 0; device < program.devices; ++device) {
    const int owner = program.rank_of(device);
    if (owner == rank && threads.empty()) {
      first = device;
      before = of_host.size();
    }
    if (owner == rank || std::ranges::find(neighbours, owner) != neighbours.end()) {
      of_host.push_back(program.threads[static_cast<size_t>(device)]);
    }
    if (owner == rank) {
      threads.push_back(of_host.back());
    }
  }
  const runtime::CpuTopology topology = runtime::read_cpu_topology();
  if (!topology.here) {
    return runtime::start_cpu_devices(threads, {}, first);
  }
  const auto places = runtime::place_devices(topology, of_host);
  return runtime::start_cpu_devices(
      threads, places.empty() ? places : std::vector(places.begin() + before, places.begin() + before + threads.size()),
      first);
}

Result<std::unique_ptr<runtime::Session>> open_session(const PlannedModel& planned, runtime::DeviceSet& devices,
                                                       const runtime::CheckpointInfo& info,
                                                       runtime::EventSink& events) {
  events.on(runtime::WorkEvent{.work = runtime::Work::kPrepare, .subject = "kernels and memory"});
  XRUN_ASSIGN(auto session, runtime::Session::create(planned.prepared.inference, planned.plan.inference, devices,
                                                     {.isa = planned.prepared.isa}));
  warn_if_interpreted(events);
  events.on(runtime::WorkEvent{.work = runtime::Work::kLoad, .subject = info.path});
  XRUN_TRY(runtime::load_checkpoint(info, session->state(), false, planned.model.file.run.moved));
  XRUN_TRY(session->weights_changed());
  return session;
}

}  // namespace xrun::cli
