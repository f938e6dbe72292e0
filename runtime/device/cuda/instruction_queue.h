// Queues the instructions of a program on GPUs, and reports their ends. The backend gives the function that queues the
// work of an instruction.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "planner/program/program.h"
#include "runtime/device/backend.h"
#include "runtime/device/cuda/cuda_devices.h"

namespace xrun::cuda {

// Implements Backend::start for a backend that orders (Backend::orders): all computations of a device are in its stream
// of computations, in the order in which they were started. Threads: those of Backend::start.
class InstructionQueue {
 public:
  // Queues the work of an instruction in `stream`, and does not wait for it. Called by a thread of that stream.
  using Launch = std::function<Status(const planner::Instruction& instruction, Stream& stream)>;

  // All arguments outlive the queue, and the devices are idle when it is destroyed.
  InstructionQueue(const planner::Program& program, const CudaDevices& devices, Launch launch);

  // Call between steps, before the first `start` of a step. `guard`: called before an instruction is queued; may be
  // null.
  void begin_step(runtime::ChangeGuard* guard) { guard_ = guard; }
  // Call between steps: whether the GPUs measure the time of each instruction, which InstructionEvents::ran reports.
  void measure(bool wanted) { measures_ = wanted; }
  // Starts an instruction, as Backend::start describes it.
  void start(const planner::Instruction& instruction, runtime::InstructionEvents& events);
  // Calls the guard, and then queues the instruction in `stream` by the calling thread.
  Status queue(const planner::Instruction& instruction, Stream& stream) const;

 private:
  struct Entry {
    InstructionQueue* self = nullptr;
    const planner::Instruction* instruction = nullptr;
    runtime::InstructionEvents* events = nullptr;
    std::unique_ptr<Event> begin;  // null until the instruction is measured
    std::unique_ptr<Event> end;
    bool measured = false;  // both events are recorded in this step
  };
  Status queue_measured(Entry& entry, Stream& stream);
  void call_guard(const planner::Instruction& instruction) const;
  static void run_task(void* entry, int32_t argument);
  static void ended(void* entry, Status status);
  StreamWorker& worker_of(const planner::Instruction& instruction) const;

  const CudaDevices& devices_;
  const Launch launch_;
  runtime::ChangeGuard* guard_ = nullptr;
  bool measures_ = false;
  std::vector<Entry> entries_;  // index: instruction
};

}  // namespace xrun::cuda
