#include <algorithm>
#include <array>
#include <iterator>

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

// The arguments that select rows: numbers of a sample, rows of the table, padding, whether the mean is taken.
std::vector<GpuArgument> bag_arguments(const GpuSpec& spec, int64_t table_rows) {
  return {argument_of(spec.node.inputs[0].dims[1]), argument_of(table_rows),
          argument_of(spec.node.attrs.integer("padding")),
          argument_of(uint32_t{spec.node.attrs.flag("mean", true) ? 1U : 0U})};
}

// Inputs: whole numbers [N, L], the table.
Made make_bag(const GpuSpec& spec) {
  return gpu_kernel_of(spec, [spec](LaunchList& list, int64_t blocks) {
    const std::vector<int64_t>& table = spec.node.inputs[1].dims;
    const int64_t samples = spec.rows(blocks);
    std::vector<GpuArgument> arguments{in(0), in(1), out(0), argument_of(samples), argument_of(table[1])};
    std::ranges::copy(bag_arguments(spec, table[0]), std::back_inserter(arguments));
    arguments.push_back(of_call(GpuArgument::Kind::kFlags));
    list.add_to("embed_bag", "embed_bag_f32", {pieces_of(samples * table[1], kThreadsOfBlock), 1, 1},
                {kThreadsOfBlock, 1, 1}, std::move(arguments));
  });
}

// Inputs: whole numbers, dy. One launch for all row blocks, like that of embed.grad.
Made make_bag_grad(const GpuSpec& spec) {
  XRUN_ASSIGN(const std::string ending, type_ending(spec, spec.node.inputs[1].dtype));
  return gpu_kernel_of(spec, [spec, ending](LaunchList& list, int64_t blocks) {
    const std::vector<int64_t>& table = spec.node.outputs[0].dims;
    std::vector<GpuArgument> arguments{in(0), in(1), out(0), argument_of(spec.rows(blocks)), argument_of(table[1])};
    std::ranges::copy(bag_arguments(spec, table[0]), std::back_inserter(arguments));
    list.add_to("embed_bag", "embed_bag_grad" + ending, {pieces_of(table[1], kThreadsOfBlock), 1, 1},
                {kThreadsOfBlock, 1, 1}, std::move(arguments));
  });
}

constexpr std::array kOps{GpuOp{"embed", make_embed}, GpuOp{"embed.grad", make_embed_grad},
                          GpuOp{"embed_bag", make_bag}, GpuOp{"embed_bag.grad", make_bag_grad}};

}  // namespace

std::span<const GpuOp> embed_launches() { return kOps; }

}  // namespace xrun::ops::gpu
