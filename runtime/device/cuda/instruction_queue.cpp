// Tests: tests/cuda/cuda_devices_test.cpp
#include "runtime/device/cuda/instruction_queue.h"

#include <utility>

#include "ops/workers.h"

namespace xrun::cuda {

using planner::Instruction;

InstructionQueue::InstructionQueue(const planner::Program& program, const CudaDevices& devices, Launch launch)
    : devices_(devices), launch_(std::move(launch)) {
  for (const Instruction& instruction : program.instructions) {
    Entry& entry = entries_.emplace_back();
    entry.self = this;
    entry.instruction = &instruction;
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
    InstructionQueue& self = *entry.self;
    status = self.measures_ ? self.queue_measured(entry, worker.stream()) : self.queue(instruction, worker.stream());
  }
  entry.events->queued(instruction);
  // An error is reported after the ends of earlier instructions of the stream, since one of them may have caused it.
  worker.when_ended({&InstructionQueue::ended, &entry}, std::move(status));
}

// Records an event before and after the work of an instruction.
Status InstructionQueue::queue_measured(Entry& entry, Stream& stream) {
  for (std::unique_ptr<Event>* event : {&entry.begin, &entry.end}) {
    if (*event == nullptr) {
      XRUN_ASSIGN(*event, Event::make(stream.context(), Timing::kOn));
    }
  }
  call_guard(*entry.instruction);
  XRUN_TRY(stream.record(*entry.begin));
  XRUN_TRY(launch_(*entry.instruction, stream));
  XRUN_TRY(stream.record(*entry.end));
  entry.measured = true;
  return {};
}

void InstructionQueue::ended(void* context, Status status) {
  Entry& entry = *static_cast<Entry*>(context);
  if (std::exchange(entry.measured, false) && status.ok()) {
    Result<double> ran = entry.end->seconds_since(*entry.begin);
    if (ran.ok()) {
      entry.events->ran(*entry.instruction, *ran);
    } else {
      status = std::move(ran).error();
    }
  }
  entry.events->ended(*entry.instruction, std::move(status));
}

Status InstructionQueue::queue(const Instruction& instruction, Stream& stream) const {
  call_guard(instruction);
  return launch_(instruction, stream);
}

void InstructionQueue::call_guard(const Instruction& instruction) const {
  if (guard_ != nullptr) {
    ops::InlineWorkers workers;
    guard_->before(instruction, workers);
  }
}

}  // namespace xrun::cuda
