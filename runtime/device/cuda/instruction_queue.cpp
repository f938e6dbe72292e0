// Tests: tests/cuda/cuda_devices_test.cpp
#include "runtime/device/cuda/instruction_queue.h"

#include <utility>

#include "ops/workers.h"

namespace xrun::cuda {

using planner::Instruction;

InstructionQueue::InstructionQueue(const planner::Program& program, const CudaDevices& devices, Launch launch)
    : devices_(devices), launch_(std::move(launch)) {
  for (const Instruction& instruction : program.instructions) {
    entries_.push_back({this, &instruction, nullptr});
  }
}

void InstructionQueue::start(const Instruction& instruction, runtime::InstructionEvents& events) {
  Entry& entry = entries_[static_cast<size_t>(instruction.id.index)];
  entry.events = &events;
  worker_of(instruction).start({&InstructionQueue::run_task, &entry, 0});
}

StreamWorker& InstructionQueue::worker_of(const Instruction& instruction) const {
  return devices_.cuda(instruction.device).worker(runtime::DeviceStream::kCompute);
}

void InstructionQueue::run_task(void* context, int32_t /*argument*/) {
  Entry& entry = *static_cast<Entry*>(context);
  const Instruction& instruction = *entry.instruction;
  StreamWorker& worker = entry.self->worker_of(instruction);
  Status status;
  if (entry.events->begins(instruction)) {
    status = entry.self->queue(instruction, worker.stream());
  }
  entry.events->queued(instruction);
  // An error is reported after the ends of earlier instructions of the stream, since one of them may have caused it.
  worker.when_ended({&InstructionQueue::ended, &entry}, std::move(status));
}

void InstructionQueue::ended(void* context, Status status) {
  const Entry& entry = *static_cast<Entry*>(context);
  entry.events->ended(*entry.instruction, std::move(status));
}

Status InstructionQueue::queue(const Instruction& instruction, Stream& stream) const {
  if (guard_ != nullptr) {
    ops::InlineWorkers workers;
    guard_->before(instruction, workers);
  }
  return launch_(instruction, stream);
}

}  // namespace xrun::cuda
