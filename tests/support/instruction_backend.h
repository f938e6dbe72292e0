// A backend for tests: each compute instruction runs as a task of a CPU device, and a test defines what it does.
#pragma once

#include "runtime/device/backend.h"
#include "runtime/device/cpu/cpu_device.h"

namespace xrun::runtime::testing {

class InstructionBackend : public Backend {
 public:
  // Sets the devices, which are made after the backend. The sequential executor has no devices.
  void set_devices(const DeviceSet& devices, const planner::Program& program) {
    devices_ = &devices;
    entries_.resize(program.instructions.size());
  }

  virtual Status compute(const planner::Instruction& instruction, ops::Workers& workers) = 0;

  void begin_step(const StepContext& /*step*/) override {}
  void start(const planner::Instruction& instruction, InstructionEvents& events) override {
    Entry& entry = entries_[static_cast<size_t>(instruction.id.index)];
    entry = {this, &instruction, &events};
    devices_->device(instruction.device).start(DeviceStream::kCompute, {&InstructionBackend::run_task, &entry, 0});
  }
  Status run(const planner::Instruction& instruction) override {
    ops::InlineWorkers workers;
    return compute(instruction, workers);
  }
  Status prepare_weights() override { return {}; }
  double grad_norm() const override { return 0; }

 private:
  struct Entry {
    InstructionBackend* self = nullptr;
    const planner::Instruction* instruction = nullptr;
    InstructionEvents* events = nullptr;
  };
  static void run_task(void* context, int32_t /*argument*/) {
    const Entry& entry = *static_cast<Entry*>(context);
    const planner::Instruction& instruction = *entry.instruction;
    Status status;
    if (entry.events->begins(instruction)) {
      status =
          entry.self->compute(instruction, static_cast<CpuDevice&>(entry.self->devices_->device(instruction.device)));
    }
    entry.events->ended(instruction, std::move(status));
  }

  const DeviceSet* devices_ = nullptr;
  std::vector<Entry> entries_;
};

}  // namespace xrun::runtime::testing
