#include <array>

#include "ops/gpu/launch/launch_list.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

// Inputs: whole numbers, the table.
Made make_embed(const GpuSpec& spec) {
  return gpu_kernel_of(spec, [spec](LaunchList& list, int64_t blocks) {
    const int64_t count = spec.elements(spec.node.inputs[0], blocks);
    const std::vector<int64_t>& table = spec.node.inputs[1].dims;
    list.each("layout", "gather_rows_f32", count * table[1], in(0), in(1), out(0), count, table[0], table[1],
              of_call(GpuArgument::Kind::kFlags));
  });
}

// Inputs: whole numbers, dy. Rows are added in the order of the samples, so one launch has the sums of a launch for
// each row block.
Made make_embed_grad(const GpuSpec& spec) {
  XRUN_ASSIGN(const std::string ending, type_ending(spec, spec.node.inputs[1].dtype));
  return gpu_kernel_of(spec, [spec, ending](LaunchList& list, int64_t blocks) {
    const int64_t count = spec.elements(spec.node.inputs[0], blocks);
    const std::vector<int64_t>& table = spec.node.outputs[0].dims;
    list.each("layout", "add_rows" + ending, table[1], in(0), in(1), out(0), count, table[0], table[1]);
  });
}

constexpr std::array kOps{GpuOp{"embed", make_embed}, GpuOp{"embed.grad", make_embed_grad}};

}  // namespace

std::span<const GpuOp> embed_launches() { return kOps; }

}  // namespace xrun::ops::gpu
