// group_norm and its gradient as launches.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/gpu/launch/launch_list.h"
#include "ops/gpu/launch/operators.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

constexpr std::string_view kModule = "group_norm";

struct GroupNorm {
  static Result<GroupNorm> of(const GpuSpec& spec) {
    const TensorType& x = spec.node.inputs[0];
    XRUN_ASSIGN(std::string ending, type_ending(spec, x.dtype));
    const int64_t channels = x.dims[1];
    return GroupNorm{.ending = std::move(ending),
                     .size = size_of(x.dtype),
                     .rows = spec.node.rows,
                     .channels = channels,
                     .positions = x.row_elements() / channels,
                     .width = channels / spec.node.attrs.integer("groups"),
                     .eps = static_cast<float>(spec.node.attrs.real("eps")),
                     .numbers = spec.for_blocks(spec.node.rows * channels * 4)};
  }

  // The arrays of the working memory with an f32 for each channel of each sample.
  GpuArgument array(int index) const { return scratch(index * numbers); }
  int64_t elements(int64_t blocks) const { return rows * blocks * positions * channels; }

  // Adds launches of a kernel for the columns of samples. arguments_of(first sample) has all arguments but the sizes.
  template <class ArgumentsOf>
  void add_columns(LaunchList& list, const std::string& kernel, int64_t blocks, const ArgumentsOf& arguments_of) const {
    for_pieces(rows * blocks, kMostBlocks, [&](int64_t begin, int64_t samples) {
      std::vector<GpuArgument> arguments = arguments_of(begin);
      arguments.insert(arguments.end(), {argument_of(positions), argument_of(channels)});
      list.add_to(kModule, kernel + ending, {pieces_of(channels, kColumnsOfBlock), samples, 1}, kThreadsOfColumns,
                  std::move(arguments));
    });
  }
  // Replaces the numbers of an array by their means over groups.
  void add_means(LaunchList& list, int index, int64_t blocks) const {
    const int64_t groups = rows * blocks * channels / width;
    list.each(kModule, "group_norm_means", groups, array(index), groups, width, positions);
  }
  // Sets the arrays 0 and 1 to mean and 1 / sqrt(var + eps).
  void add_statistics(LaunchList& list, int64_t blocks) const {
    add_columns(list, "group_norm_sums", blocks, [&](int64_t begin) {
      return std::vector<GpuArgument>{in(0, begin * positions * channels * size),
                                      after(array(0), begin * channels * 4)};
    });
    add_means(list, 0, blocks);
    add_columns(list, "group_norm_squares", blocks, [&](int64_t begin) {
      const Bytes number = begin * channels * 4;
      return std::vector<GpuArgument>{in(0, begin * positions * channels * size), after(array(0), number),
                                      after(array(1), number)};
    });
    const int64_t groups = rows * blocks * channels / width;
    list.each(kModule, "group_norm_rstds", groups, array(1), groups, width, positions, eps);
  }

  std::string ending;
  Bytes size;
  int64_t rows, channels, positions;
  int64_t width;  // channels in a group
  float eps;
  Bytes numbers;  // the size of an array
};

// Inputs: x, weight, bias.
Made make_forward(const GpuSpec& spec) {
  XRUN_ASSIGN(const GroupNorm norm, GroupNorm::of(spec));
  const auto run = [norm](LaunchList& list, int64_t blocks) {
    norm.add_statistics(list, blocks);
    const int64_t n = norm.elements(blocks);
    list.each(kModule, "group_norm" + norm.ending, n, in(0), norm.array(0), norm.array(1), in(1), in(2), out(0), n,
              norm.positions, norm.channels);
  };
  return gpu_kernel_of(spec, run, 2 * norm.numbers);
}

// Inputs: x, dy, weight. Outputs: dx, dweight, dbias. The arrays 2 and 3 have the means of the gradient, and the sums
// in f64 follow.
Made make_gradient(const GpuSpec& spec) {
  XRUN_ASSIGN(const GroupNorm norm, GroupNorm::of(spec));
  const auto run = [norm](LaunchList& list, int64_t blocks) {
    const GpuArgument sums_gx = norm.array(4), sums_g = norm.array(6);
    norm.add_statistics(list, blocks);
    norm.add_columns(list, "group_norm_grad_sums", blocks, [&](int64_t begin) {
      const Bytes at = begin * norm.positions * norm.channels * norm.size, number = begin * norm.channels * 4;
      return std::vector<GpuArgument>{in(0, at),
                                      in(1, at),
                                      after(norm.array(0), number),
                                      after(norm.array(1), number),
                                      in(2),
                                      after(sums_gx, 2 * number),
                                      after(sums_g, 2 * number),
                                      after(norm.array(2), number),
                                      after(norm.array(3), number)};
    });
    norm.add_means(list, 2, blocks);
    norm.add_means(list, 3, blocks);
    const int64_t n = norm.elements(blocks);
    list.each(kModule, "group_norm_grad" + norm.ending, n, in(0), in(1), norm.array(0), norm.array(1), in(2),
              norm.array(2), norm.array(3), out(0), n, norm.positions, norm.channels);
    list.each(kModule, "group_norm_weights", norm.channels, sums_gx, sums_g, out(1), out(2), blocks, norm.rows,
              norm.channels);
  };
  return gpu_kernel_of(spec, run, 8 * norm.numbers);
}

constexpr std::array kOps{GpuOp{"group_norm", make_forward}, GpuOp{"group_norm.grad", make_gradient}};

}  // namespace

std::span<const GpuOp> group_norm_launches() { return kOps; }

}  // namespace xrun::ops::gpu
