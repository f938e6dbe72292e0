// Losses and metrics of dense logits, and losses that compare two tensors.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include <array>

#include "ops/gpu/launch/compiled_loop.h"
#include "ops/gpu/launch/operators.h"
#include "ops/losses/row_losses.h"

namespace xrun::ops::gpu {
namespace {

using Made = Result<std::unique_ptr<GpuKernel>>;

// Logits f32[N, ..., C] with a label at each position.
struct Logits {
  int64_t classes;
  int64_t positions;  // positions in a row

  static Result<Logits> of(const GpuSpec& spec) {
    const TensorType& logits = spec.node.inputs[0];
    if (logits.dtype != DType::kF32) {
      return no_gpu_kernel(spec, std::string(name_of(logits.dtype)) + " tensors");
    }
    const int64_t classes = logits.dims.back();
    return Logits{.classes = classes, .positions = logits.row_elements() / classes};
  }
};

float scale_of(const GpuSpec& spec) { return static_cast<float>(spec.node.attrs.real("scale", 1)); }
double smoothing_of(const GpuSpec& spec) { return spec.node.attrs.real("smoothing", 0); }

// Adds the kernel that computes the results of `count` positions: losses of `softmax_ce` or hits of `accuracy`.
void add_results(LaunchList& list, const GpuSpec& spec, bool sequence, int64_t count, int64_t classes,
                 const GpuArgument& results) {
  const int64_t threads = count * kThreadsOfRow;
  if (spec.op->name == "accuracy") {
    list.each("cross_entropy", sequence ? "sequence_hits_f32" : "accuracy_f32", threads, in(0), in(1), results, count,
              classes, spec.node.attrs.integer("k", 1));
  } else {
    list.each("cross_entropy", sequence ? "sequence_ce_f32" : "softmax_ce_f32", threads, in(0), in(1), results, count,
              classes, scale_of(spec), smoothing_of(spec));
  }
}

// Inputs: logits, labels. With several positions, the working memory has the result of each position in f64.
Made make_result(const GpuSpec& spec) {
  XRUN_ASSIGN(const Logits logits, Logits::of(spec));
  const auto run = [spec, logits](LaunchList& list, int64_t blocks) {
    const int64_t rows = spec.rows(blocks);
    const bool sequence = logits.positions > 1;
    add_results(list, spec, sequence, rows * logits.positions, logits.classes, sequence ? scratch() : out(0));
    if (sequence) {
      list.each("cross_entropy", "sequence_means_f32", rows, scratch(), in(1), out(0), rows, logits.positions,
                logits.classes);
    }
  };
  return gpu_kernel_of(spec, run, logits.positions > 1 ? spec.for_blocks(spec.rows(1) * logits.positions * 8) : 0);
}

// Inputs: logits, labels, the gradients of the losses.
Made make_gradient(const GpuSpec& spec) {
  XRUN_ASSIGN(const Logits logits, Logits::of(spec));
  return gpu_kernel_of(spec, [spec, logits](LaunchList& list, int64_t blocks) {
    const int64_t count = spec.rows(blocks) * logits.positions;
    if (logits.positions > 1) {
      list.each("cross_entropy", "sequence_ce_dx_f32", count * kThreadsOfRow, in(0), in(1), in(2), out(0), count,
                logits.positions, logits.classes, scale_of(spec), smoothing_of(spec));
    } else {
      list.each("cross_entropy", "softmax_ce_dx_f32", count * kThreadsOfRow, in(0), in(1), in(2), out(0), count,
                logits.classes, scale_of(spec), smoothing_of(spec));
    }
  });
}

// mse and bce, and their gradients. Inputs: x, target, and for the gradient the gradients of the losses.
Made make_row_loss(const GpuSpec& spec) {
  const TensorType& x = spec.node.inputs[0];
  if (x.dtype != DType::kF32 || x.layout != spec.node.inputs[1].layout) {
    return no_gpu_kernel(spec, "operands of these types");
  }
  const bool gradient = spec.op->name.ends_with(".grad");
  const auto kernels = row_loss_kernels(spec.op->name.substr(0, spec.op->name.find('.')), x.row_elements());
  if (!kernels) {
    return no_gpu_kernel(spec, "any tensors");
  }
  XRUN_ASSIGN(const CompiledLoop loop, CompiledLoop::make(spec, gradient ? kernels->gradient : kernels->loss));
  return gpu_kernel_of(spec, [spec, loop, gradient](LaunchList& list, int64_t blocks) {
    std::vector<GpuArgument> operands{in(0), in(1)};
    if (gradient) {
      operands.push_back(in(2));
    }
    operands.push_back(out(0));
    loop.add(list, spec.elements(spec.node.inputs[0], blocks), std::move(operands));
  });
}

constexpr std::array kOps{
    GpuOp{"softmax_ce", make_result}, GpuOp{"softmax_ce.dx", make_gradient}, GpuOp{"accuracy", make_result},
    GpuOp{"mse", make_row_loss},      GpuOp{"bce", make_row_loss},           GpuOp{"mse.grad", make_row_loss},
    GpuOp{"bce.grad", make_row_loss},
};

}  // namespace

std::span<const GpuOp> loss_launches() { return kOps; }

}  // namespace xrun::ops::gpu
