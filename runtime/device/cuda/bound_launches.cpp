#include "runtime/device/cuda/bound_launches.h"

namespace xrun::cuda {

using ops::gpu::GpuArgument;
using ops::gpu::GpuCall;
using ops::gpu::GpuLaunch;

namespace {

bool is_of_step(const GpuArgument& argument) {
  return argument.kind == GpuArgument::Kind::kSeed || argument.kind == GpuArgument::Kind::kStep ||
         argument.kind == GpuArgument::Kind::kLossScale;
}

}  // namespace

Status BoundLaunches::add(KernelStore& kernels, std::span<const GpuLaunch> launches, const CallAddresses& at) {
  const GpuCall call{
      .inputs = at.inputs, .outputs = at.outputs, .scratch = at.scratch, .flags = at.flags, .first_row = at.first_row};
  for (const GpuLaunch& launch : launches) {
    Bound bound{.grid = {.blocks = launch.blocks, .threads = launch.threads, .shared_bytes = launch.shared}};
    XRUN_ASSIGN(bound.kernel, kernels.find(launch.text, launch.kernel, launch.shared));
    for (const GpuArgument& argument : launch.arguments) {
      const size_t offset = bound.arguments.append(value_of(argument, call), argument.bytes);
      if (is_of_step(argument)) {
        bound.of_step.push_back({offset, argument});
      }
    }
    launches_.push_back(std::move(bound));
  }
  return {};
}

Status BoundLaunches::queue(const runtime::StepContext& step, const Stream& stream) {
  const GpuCall call{.seed = step.seed, .step = step.step, .loss_scale = static_cast<float>(step.loss_scale)};
  for (Bound& bound : launches_) {
    for (const StepArgument& one : bound.of_step) {
      bound.arguments.set(one.offset, value_of(one.argument, call), one.argument.bytes);
    }
    XRUN_TRY(launch(bound.kernel, bound.grid, bound.arguments, stream));
  }
  return {};
}

}  // namespace xrun::cuda
