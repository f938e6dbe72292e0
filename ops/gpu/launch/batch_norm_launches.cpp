// Batch norm over row blocks and its gradients. A function that the operator absorbed has kernels if it is a relu or a
// sum; any other is a compiled loop after the norm.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>
#include <optional>

#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/launch/operators.h"
#include "ops/gpu/launch/slopes.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

constexpr int64_t kRowsOfBlock = 64;  // rows of a thread block

// The sizes of a batch norm and the kernels' names.
struct NormShape {
  GpuSpec spec;
  std::string ending;
  int64_t channels;
  int64_t rows;  // samples times positions in a row block
  Bytes size;    // bytes of an element
  float eps;

  static Result<NormShape> of(const GpuSpec& spec) {
    const TensorType& x = spec.node.inputs[0];
    XRUN_ASSIGN(std::string ending, type_ending(spec, x.dtype));
    NormShape shape{.spec = spec,
                    .ending = std::move(ending),
                    .channels = x.dims[1],
                    .rows = spec.elements(x, 1) / x.dims[1],
                    .size = size_of(x.dtype),
                    .eps = static_cast<float>(spec.node.attrs.real("eps"))};
    if (shape.rows > kMostBlocks * kRowsOfBlock) {
      return no_gpu_kernel(spec, "row blocks of more than " + std::to_string(kMostBlocks * kRowsOfBlock) +
                                     " positions; a smaller `norm_rows` makes smaller row blocks");
    }
    return shape;
  }

  int64_t column_blocks() const { return pieces_of(channels, kColumnsOfBlock); }
  Bytes block_bytes() const { return rows * channels * size; }
  Bytes numbers() const { return channels * 4; }  // bytes of a number for each channel

  // Adds launches of a kernel with an element (x: 32 channels, y: 64 rows, z: row block). `arguments_of(first block)`
  // returns the arguments before the sizes, and `last` follows them.
  template <class ArgumentsOf>
  void add_elements(LaunchList& list, const std::string& module, const std::string& kernel, int64_t blocks,
                    const std::vector<GpuArgument>& last, const ArgumentsOf& arguments_of) const {
    for_pieces(blocks, kMostBlocks, [&](int64_t begin, int64_t count) {
      std::vector<GpuArgument> arguments = arguments_of(begin);
      arguments.insert(arguments.end(), {argument_of(rows), argument_of(channels)});
      arguments.insert(arguments.end(), last.begin(), last.end());
      list.add_to(module, kernel, {column_blocks(), pieces_of(rows, kRowsOfBlock), count}, kThreadsOfColumns,
                  std::move(arguments));
    });
  }
};

// Adds the norm of `x` with the statistics of its row blocks. `function` is "", "_relu", "_add" or "_add_relu".
void add_norm(LaunchList& list, const NormShape& shape, const std::string& function, const GpuArgument& x,
              const std::optional<GpuArgument>& residual, const GpuArgument& mean, const GpuArgument& var,
              const GpuArgument& weight, const GpuArgument& bias, const GpuArgument& y, int64_t blocks,
              bool by_block = true) {
  const int64_t stride = by_block ? shape.channels : 0;
  shape.add_elements(
      list, "batch_norm", "bn" + function + shape.ending, blocks, {argument_of(stride), argument_of(shape.eps)},
      [&](int64_t begin) {
        const int64_t at = begin * shape.block_bytes(), statistic = begin * stride * 4;
        std::vector<GpuArgument> arguments{after(x, at)};
        if (residual) {
          arguments.push_back(after(*residual, at));
        }
        arguments.insert(arguments.end(), {after(mean, statistic), after(var, statistic), weight, bias, after(y, at)});
        return arguments;
      });
}

class BatchNorm final : public GpuKernel {
 public:
  static Made make(const GpuSpec& spec) {
    XRUN_ASSIGN(NormShape shape, NormShape::of(spec));
    std::optional<CompiledLoop> then;
    if (spec.op->name == "bn.prelu") {
      XRUN_ASSIGN(then, slope_loop(spec, spec.node.inputs[0], spec.node.inputs[5]));
    } else if (spec.node.attrs.has("then")) {
      XRUN_ASSIGN(ScalarExpr function, parse_scalar_expr(spec.node.attrs.text("then")));
      XRUN_ASSIGN(then, CompiledLoop::of_map(spec, std::span(spec.node.inputs).first(1),
                                             std::span(spec.node.outputs).first(1), std::move(function)));
    }
    return std::unique_ptr<GpuKernel>(new BatchNorm(std::move(shape), std::move(then)));
  }

  std::vector<GpuLaunch> launches(int64_t blocks) const override {
    LaunchList list(shape_.spec.target);
    const bool training = shape_.spec.node.training;
    if (training) {
      for_pieces(blocks, kMostBlocks, [&](int64_t begin, int64_t count) {
        list.add("batch_norm", "bn_statistics" + shape_.ending, {shape_.column_blocks(), count, 1}, kThreadsOfColumns,
                 in(0, begin * shape_.block_bytes()), out(1, begin * shape_.numbers()),
                 out(2, begin * shape_.numbers()), shape_.rows, shape_.channels);
      });
    }
    const bool relu = !then_ && shape_.spec.node.attrs.flag("relu", false);
    const std::string function = adds_ ? (relu ? "_add_relu" : "_add") : (relu ? "_relu" : "");
    add_norm(list, shape_, function, in(0), adds_ ? std::optional(in(1)) : std::nullopt,
             training ? out(1) : in(weight_ + 2), training ? out(2) : in(weight_ + 3), in(weight_), in(weight_ + 1),
             out(0), blocks, training);
    if (then_) {
      std::vector<GpuArgument> operands{out(0)};
      if (shape_.spec.op->name == "bn.prelu") {
        operands.push_back(in(5));
      }
      operands.push_back(out(0));
      then_->add(list, shape_.spec.elements(shape_.spec.node.outputs[0], blocks), std::move(operands));
    }
    return list.take();
  }

  std::vector<GpuLaunch> fold_states(int64_t blocks) const override {
    LaunchList list(shape_.spec.target);
    list.each("batch_norm", "bn_running", shape_.channels, out(1), out(2), in(weight_ + 2), in(weight_ + 3), blocks,
              shape_.channels, shape_.spec.node.attrs.real("momentum"), of_call(GpuArgument::Kind::kFlags));
    return list.take();
  }

 private:
  BatchNorm(NormShape shape, std::optional<CompiledLoop> then)
      : shape_(std::move(shape)),
        then_(std::move(then)),
        adds_(shape_.spec.op->name == "bn.add"),
        weight_(adds_ ? 2 : 1) {}

  NormShape shape_;
  std::optional<CompiledLoop> then_;  // the function after the norm
  bool adds_;
  int weight_;  // index of the input with the weight
};

// Adds the gradients of x, weight and bias from g, the gradient of the norm; with `relu`, g is the gradient after it.
// `g` may be the memory of dx. The sums of the row blocks are in the working memory from `sums` on.
void add_gradient(LaunchList& list, const NormShape& shape, bool relu, const GpuArgument& g, Bytes sums,
                  int64_t blocks) {
  const std::string function = relu ? "bn_relu_grad" : "bn_grad";
  const GpuArgument sum = scratch(sums), dot = scratch(sums + shape.spec.most_blocks * shape.numbers());
  for_pieces(blocks, kMostBlocks, [&](int64_t begin, int64_t count) {
    const int64_t at = begin * shape.block_bytes(), number = begin * shape.numbers();
    list.add("batch_norm_grad", function + "_sums" + shape.ending, {shape.column_blocks(), count, 1}, kThreadsOfColumns,
             in(0, at), after(g, at), in(4, number), in(5, number), in(2), in(3), after(sum, number),
             after(dot, number), shape.rows, shape.channels, shape.eps);
  });
  shape.add_elements(
      list, "batch_norm_grad", function + shape.ending, blocks, {argument_of(shape.eps)}, [&](int64_t begin) {
        const int64_t at = begin * shape.block_bytes(), number = begin * shape.numbers();
        return std::vector<GpuArgument>{in(0, at), after(g, at),       in(4, number),      in(5, number), in(2),
                                        in(3),     after(sum, number), after(dot, number), out(0, at)};
      });
  list.each("batch_norm_grad", "bn_grad_fold", shape.channels, sum, dot, out(1), out(2), blocks, shape.channels);
}

// Inputs: x, dy, weight, bias, mean, var. Outputs: dx, dweight, dbias. With a function, its gradient is computed first,
// from the norm in the working memory, and stored in dx.
Made make_gradient(const GpuSpec& spec) {
  XRUN_ASSIGN(const NormShape shape, NormShape::of(spec));
  std::optional<CompiledLoop> then;
  if (spec.node.attrs.has("then")) {
    XRUN_ASSIGN(const ScalarExpr function, parse_scalar_expr(spec.node.attrs.text("then")));
    constexpr std::array<int, 1> kWanted{0};
    XRUN_ASSIGN(then, CompiledLoop::of_map(spec, std::span(spec.node.inputs).first(2),
                                           std::span(spec.node.outputs).first(1), gradient_of(function, 1, kWanted)));
  }
  const Bytes sums = spec.for_blocks(2 * shape.numbers());
  const bool relu = !then && spec.node.attrs.flag("relu", false);
  const auto run = [spec, shape, then, sums, relu](LaunchList& list, int64_t blocks) {
    if (then) {
      add_norm(list, shape, "", in(0), {}, in(4), in(5), in(2), in(3), scratch(sums), blocks);
      then->add(list, spec.elements(spec.node.inputs[0], blocks), {scratch(sums), in(1), out(0)});
    }
    add_gradient(list, shape, relu, then ? out(0) : in(1), 0, blocks);
  };
  return gpu_kernel_of(spec, run, sums + (then ? spec.for_blocks(shape.block_bytes()) : 0));
}

// Inputs: x, dy, weight, bias, mean, var, slope. Outputs: dx, dweight, dbias, dslope. The working memory has the sums,
// the norm, and the terms of dslope.
Made make_prelu_gradient(const GpuSpec& spec) {
  XRUN_ASSIGN(const NormShape shape, NormShape::of(spec));
  XRUN_ASSIGN(const SlopeGradient slopes, SlopeGradient::make(spec, spec.node.inputs[0], spec.node.inputs[6]));
  const Bytes norm = spec.for_blocks(2 * shape.numbers());
  const Bytes terms = norm + spec.for_blocks(shape.block_bytes());
  const auto run = [shape, slopes, norm, terms](LaunchList& list, int64_t blocks) {
    add_norm(list, shape, "", in(0), {}, in(4), in(5), in(2), in(3), scratch(norm), blocks);
    slopes.add(list, scratch(norm), in(1), in(6), out(0), scratch(terms), out(3), blocks);
    add_gradient(list, shape, false, out(0), 0, blocks);
  };
  return gpu_kernel_of(spec, run, terms + spec.for_blocks(shape.rows * shape.numbers()));
}

constexpr std::array kOps{
    GpuOp{"bn", BatchNorm::make},
    GpuOp{"bn.add", BatchNorm::make},
    GpuOp{"bn.prelu", BatchNorm::make},
    GpuOp{"bn.grad", make_gradient},
    GpuOp{"bn.prelu.grad", make_prelu_gradient},
};

}  // namespace

std::span<const GpuOp> batch_norm_launches() { return kOps; }

}  // namespace xrun::ops::gpu
