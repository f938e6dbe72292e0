#include "runtime/device/cuda/step_decision.h"

#include "ops/gpu/launch/gradient_launches.h"
#include "runtime/device/gradient_sums.h"

namespace xrun::cuda {

using ops::gpu::GpuDecision;
using ops::gpu::GradientPart;

Result<std::unique_ptr<StepDecision>> StepDecision::make(const Context& context, const Module& module,
                                                         const planner::Program& program, StepMemory& memory,
                                                         ops::GpuTarget target) {
  std::unique_ptr<StepDecision> made(new StepDecision(module.train, target));
  const GpuDecision first;
  XRUN_ASSIGN(made->decision_, GpuMemory::allocate(context, sizeof first));
  XRUN_TRY(made->decision_->write(0, std::as_bytes(std::span(&first, 1))));
  std::vector<GradientPart> parts;
  const runtime::GradientSums sums(module, program);
  for (const runtime::GradientSums::Part& part : sums.parts()) {
    parts.push_back(
        {.first = part.first, .count = part.count, .of_head = part.of_head ? 1U : 0U, .counts = part.counts ? 1U : 0U});
  }
  made->part_count_ = std::ssize(parts);
  if (!parts.empty()) {
    XRUN_ASSIGN(made->parts_, memory.store(std::as_bytes(std::span(parts))));
  }
  made->flags_ = memory.flags();
  return made;
}

Status StepDecision::add(BoundLaunches& launches, KernelStore& kernels, const planner::Instruction& instruction,
                         const runtime::Binder& binder) const {
  CallAddresses at{.inputs = {0, 0}, .outputs = {address()}, .flags = flags_};
  for (const planner::Operand& operand : instruction.operands) {
    if (operand.role == planner::Role::kNorms && !operand.param.valid()) {
      at.inputs = {reinterpret_cast<uint64_t>(binder.at(operand)), parts_};
    }
  }
  const ops::gpu::GpuLaunch launch = ops::gpu::decide_launch(target_, train_, at.inputs[0] != 0 ? part_count_ : 0);
  return launches.add(kernels, {&launch, 1}, at);
}

Result<GpuDecision> StepDecision::read() const {
  GpuDecision decision;
  XRUN_TRY(decision_->read(0, std::as_writable_bytes(std::span(&decision, 1))));
  return decision;
}

}  // namespace xrun::cuda
