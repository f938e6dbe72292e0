#include "ops/gpu/launch/launch_list.h"

#include <limits>

#include "graph/base/check.h"
#include "ops/gpu/kernel_texts.h"

namespace xrun::ops::gpu {

void LaunchList::add_launch(std::string_view text, std::string kernel, Sizes blocks, Sizes threads,
                            std::vector<GpuArgument> arguments) {
  if (std::ranges::any_of(blocks, [](int64_t count) { return count == 0; })) {
    return;
  }
  XRUN_CHECK(blocks[0] <= std::numeric_limits<int32_t>::max() && blocks[1] <= kMostBlocks && blocks[2] <= kMostBlocks,
             "a grid of a kernel is too large");
  GpuLaunch launch{.text = text, .kernel = std::move(kernel), .arguments = std::move(arguments)};
  for (size_t d = 0; d < 3; ++d) {
    launch.blocks[d] = static_cast<uint32_t>(blocks[d]);
    launch.threads[d] = static_cast<uint32_t>(threads[d]);
  }
  launches_.push_back(std::move(launch));
}

std::string_view LaunchList::text_of(std::string_view module) const { return kernel_text(compute_, module); }

void RoundedWeight::add_to(LaunchList& list) const {
  const int64_t n = rows * columns * depth;
  if (columns == 1 || depth == 1) {
    list.each("cast", "narrow_bf16", n, in(0), out(0), n);
  } else {
    list.each("cast", "narrow_packed_bf16", n, in(0), out(0), rows, columns, depth);
  }
}

std::vector<RoundedWeight> rounded_weights(const GpuSpec& spec, std::vector<RoundedWeight> weights) {
  return spec.node.inputs[0].dtype == DType::kBF16 ? std::move(weights) : std::vector<RoundedWeight>{};
}

Error no_gpu_kernel(const GpuSpec& spec, const std::string& what) {
  return {ErrorKind::kContent, "XG0824", "`" + std::string(spec.op->name) + "` has no kernel of GPUs for " + what,
          "train on CPUs, or write the model with other operators"};
}

Result<std::string> type_ending(const GpuSpec& spec, DType dtype) {
  if (dtype == DType::kF32 || dtype == DType::kBF16) {
    return "_" + std::string(name_of(dtype));
  }
  return no_gpu_kernel(spec, std::string(name_of(dtype)) + " tensors");
}

}  // namespace xrun::ops::gpu
