// Products of matrices: linear, products with a parameter, and their gradients. Products of bf16 use tensor cores and
// weights that are rounded once after each update.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/dense/einsum_rule.h"
#include "ops/gpu/launch/column_sums.h"
#include "ops/gpu/launch/operators.h"
#include "ops/gpu/launch/products.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

constexpr int64_t kTile = 64;                       // rows and columns of a thread block
constexpr int64_t kMostRows = kMostBlocks * kTile;  // rows of a launch

std::string product_name(const char* form, DType dtype) {
  return "product_" + std::string(form) + "_" + std::string(name_of(dtype));
}
std::string module_of(DType dtype) { return "product_" + std::string(name_of(dtype)); }
constexpr int64_t threads_of(DType dtype) { return dtype == DType::kBF16 ? 128 : 256; }

// The kernel of y [m, n] = x [m, k] times a weight, which is input 1. `columns` and `terms`: n and k.
Made make_weight_product(const GpuSpec& spec, WeightForm form, int64_t columns, int64_t terms) {
  const TensorType& x = spec.node.inputs[0];
  XRUN_TRY(type_ending(spec, x.dtype));
  const auto run = [spec, form, columns, terms](LaunchList& list, int64_t blocks) {
    const TensorType& rows = spec.node.inputs[0];
    add_weight_product(list, rows.dtype, form, in(0), in(1), spec.node.inputs.size() > 2 ? in(2) : null_address(),
                       out(0), spec.elements(rows, blocks) / terms, columns, terms);
  };
  return gpu_kernel_of(spec, run, 0, rounded_weights(spec, {{.input = 1, .rows = columns * terms}}));
}

// Adds a^T b to the first output, a chain of sums for each row block. `a` is [rows, m] and `b` [rows, n], both of them
// inputs; m and n are their last dimensions.
Made make_weight_gradient(const GpuSpec& spec, int a, int b) {
  const auto type_of = [&](int input) -> const TensorType& { return spec.node.inputs[static_cast<size_t>(input)]; };
  const DType dtype = type_of(a).dtype;
  XRUN_TRY(type_ending(spec, dtype));
  const int64_t m = type_of(a).dims.back(), n = type_of(b).dims.back();
  if (m > kMostRows) {
    return no_gpu_kernel(spec, "weights of more than " + std::to_string(kMostRows) + " rows");
  }
  const int64_t rows = spec.elements(type_of(a), 1) / m;
  return gpu_kernel_of(spec, [=](LaunchList& list, int64_t blocks) {
    for (int64_t block = 0; block < blocks; ++block) {
      const Bytes first = block * rows * size_of(dtype);
      list.add(module_of(dtype), product_name("tn", dtype), {pieces_of(n, kTile), pieces_of(m, kTile), 1},
               {threads_of(dtype), 1, 1}, in(a, first * m), in(b, first * n), out(0), m, n, rows);
    }
  });
}

Made make_linear(const GpuSpec& spec) {
  return make_weight_product(spec, WeightForm::kOutIn, spec.node.inputs[1].dims[0], spec.node.inputs[1].dims[1]);
}
Made make_linear_dx(const GpuSpec& spec) {
  return make_weight_product(spec, WeightForm::kInOut, spec.node.inputs[1].dims[1], spec.node.inputs[1].dims[0]);
}
Made make_linear_dw(const GpuSpec& spec) { return make_weight_gradient(spec, 1, 0); }

// matmul, einsum, and their gradients. A parameter must be [K, J], and the other operand have its inner dimension last.
// Inputs of a gradient by the parameter: dy and the other operand.
Made make_product(const GpuSpec& spec) {
  const std::vector<TensorType>& inputs = spec.node.inputs;
  const ProductRule rule = product_rule_of(inputs, spec.node.attrs);
  const std::string rows = rule.a.substr(0, rule.a.size() - 1);
  const bool image =
      inputs[0].is_channels_last() || inputs[1].is_channels_last() || spec.node.outputs[0].is_channels_last();
  if (!image && !spec.node.outputs[0].has_batch() && rule.b.starts_with(rows) && rule.b.size() == rule.a.size()) {
    const std::string first{rule.a.back(), rule.b.back()}, second{rule.b.back(), rule.a.back()};
    if (rule.y == first || rule.y == second) {
      return rule.y == first ? make_weight_gradient(spec, 0, 1) : make_weight_gradient(spec, 1, 0);
    }
  }
  if (!image && spec.node.outputs[0].has_batch() && !inputs[1].has_batch() && rule.b.size() == 2) {
    const bool plain = rule.b[0] == rule.a.back();
    const char column = rule.b[plain ? 1 : 0];
    if ((plain || rule.b[1] == rule.a.back()) && rule.y == rows + column && !has_letter(rule.a, column)) {
      return make_weight_product(spec, plain ? WeightForm::kInOut : WeightForm::kOutIn, inputs[1].dims[plain ? 1 : 0],
                                 inputs[1].dims[plain ? 0 : 1]);
    }
  }
  if (inputs[1].has_batch() && spec.node.outputs[0].has_batch()) {
    return make_batch_product(spec, rule);
  }
  return no_gpu_kernel(spec, "the product " + rule.text() + ", of a parameter that is no matrix");
}

Made make_bias_grad(const GpuSpec& spec) {
  const TensorType& dy = spec.node.inputs[0];
  XRUN_TRY(type_ending(spec, dy.dtype));
  const int64_t channels = spec.node.outputs[0].dims[0];
  return gpu_kernel_of(spec, [spec, channels](LaunchList& list, int64_t blocks) {
    const TensorType& terms = spec.node.inputs[0];
    add_column_sums(list, terms.dtype, in(0), out(0), spec.elements(terms, 1) / channels, channels, blocks);
  });
}

constexpr std::array kOps{
    GpuOp{"linear", make_linear},       GpuOp{"linear.dx", make_linear_dx}, GpuOp{"linear.dw", make_linear_dw},
    GpuOp{"bias.grad", make_bias_grad}, GpuOp{"matmul", make_product},      GpuOp{"einsum", make_product},
    GpuOp{"einsum.grad", make_product}, GpuOp{"einsum.dw", make_product},
};

}  // namespace

void add_weight_product(LaunchList& list, DType dtype, WeightForm form, const GpuArgument& x, const GpuArgument& weight,
                        const GpuArgument& bias, const GpuArgument& y, int64_t rows, int64_t columns, int64_t terms) {
  const bool transposed = form == WeightForm::kOutIn;
  const Bytes size = size_of(dtype);
  for_pieces(rows, kMostRows, [&](int64_t begin, int64_t count) {
    std::vector<GpuArgument> arguments{after(x, begin * terms * size), weight};
    if (transposed) {
      arguments.push_back(bias);
    }
    arguments.insert(arguments.end(),
                     {after(y, begin * columns * size), argument_of(count), argument_of(columns), argument_of(terms)});
    list.add_to(module_of(dtype), product_name(transposed ? "nt" : "nn", dtype),
                {pieces_of(columns, kTile), pieces_of(count, kTile), 1}, {threads_of(dtype), 1, 1},
                std::move(arguments));
  });
}

std::span<const GpuOp> product_launches() { return kOps; }

}  // namespace xrun::ops::gpu
