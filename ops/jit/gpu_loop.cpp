// Tests: tests/gpu_loops/kernels_test.cpp
#include "ops/jit/gpu_loop.h"

#include <algorithm>

namespace xrun::ops {
namespace {

using Reach = GpuOperand::Reach;
using Sums = GpuLoop::Sums;

// The largest number of operations of a kernel; the compiler's time grows faster than the number of operations.
constexpr size_t kMostKernelOps = 1000;
// The most operands: the addresses of 64 are 512 bytes of the 4,096 that parameters may have.
constexpr size_t kMostKernelOperands = 64;

bool is_supported(DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16; }

Error unsupported(const std::string& what) {
  return {ErrorKind::kContent, "XG0824", "no kernel of a GPU can be made: " + what,
          "train on CPUs, or write the function with other operators"};
}

std::string text_of(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) {
    text += (text.empty() ? "" : " ") + std::to_string(number);
  }
  return text;
}

std::string text_of(const GpuOperand& input) {
  switch (input.reach) {
    case Reach::kEach:
      return std::string(name_of(input.dtype));
    case Reach::kSteps:
      return std::string(name_of(input.dtype)) + "[" + text_of(input.steps) + "]";
    case Reach::kOne:
      return "one";
    case Reach::kNumber:
      return "number";
  }
  return "";
}

}  // namespace

int64_t gpu_blocks(const GpuLoop& loop, int64_t elements) {
  const int64_t threads = loop.sums == Sums::kNone ? elements : (elements + loop.row - 1) / loop.row * kRowThreads;
  return (threads + kGpuThreads - 1) / kGpuThreads;
}

GpuLoop gpu_loop(const LoopForm& form, int64_t row) {
  GpuLoop loop{.expr = form.expr, .inputs = {}, .outputs = form.outputs, .dims = {}};
  loop.expr.prune();
  for (const LoopInput input : form.inputs) {
    loop.inputs.push_back({.reach = input == LoopInput::kUniform ? Reach::kOne : Reach::kEach,
                           .dtype = input == LoopInput::kBF16  ? DType::kBF16
                                    : input == LoopInput::kF16 ? DType::kF16
                                                               : DType::kF32,
                           .steps = {}});
  }
  if (form.squares) {
    loop.sums = Sums::kSquares;
    loop.row = row;
  }
  return loop;
}

Status check(const GpuLoop& loop) {
  if (const size_t operations = loop.expr.operations(); operations > kMostKernelOps) {
    return unsupported("the function has " + std::to_string(operations) + " operations, more than " +
                       std::to_string(kMostKernelOps));
  }
  if (const size_t operands = loop.inputs.size() + loop.outputs.size();
      loop.outputs.empty() || operands > kMostKernelOperands || loop.outputs.size() != loop.expr.results().size()) {
    return unsupported("the function has " + std::to_string(loop.inputs.size()) + " operands and " +
                       std::to_string(loop.outputs.size()) + " results");
  }
  const std::vector<int> read = loop.expr.inputs_read();
  if (!read.empty() && read.back() >= static_cast<int>(loop.inputs.size())) {
    return unsupported("the function reads operand " + std::to_string(read.back()) + ", which is missing");
  }
  for (const GpuOperand& input : loop.inputs) {
    if (!is_supported(input.dtype)) {
      return unsupported("an operand has elements of type " + std::string(name_of(input.dtype)));
    }
    if ((input.reach == Reach::kSteps) != !input.steps.empty() || (!input.steps.empty() && loop.dims.empty()) ||
        (!input.steps.empty() && input.steps.size() != loop.dims.size())) {
      return unsupported("an operand has " + std::to_string(input.steps.size()) + " steps for " +
                         std::to_string(loop.dims.size()) + " dimensions");
    }
  }
  for (const DType output : loop.outputs) {
    if (!is_supported(output) || (loop.sums != Sums::kNone && output != DType::kF32)) {
      return unsupported("a result has elements of type " + std::string(name_of(output)) +
                         (loop.sums != Sums::kNone ? " and is summed" : ""));
    }
  }
  if (std::ranges::any_of(loop.dims, [](int64_t dim) { return dim <= 0; }) ||
      (loop.sums != Sums::kNone && loop.row <= 0)) {
    return unsupported("a dimension is not positive");
  }
  return {};
}

std::string describe(const GpuLoop& loop, GpuTarget target) {
  std::string text(name_of(target));
  for (const GpuOperand& input : loop.inputs) {
    text += " " + text_of(input);
  }
  text += " ->";
  for (const DType output : loop.outputs) {
    text += " " + std::string(name_of(output));
  }
  if (!loop.dims.empty()) {
    text += " over " + text_of(loop.dims);
  }
  if (loop.sums != Sums::kNone) {
    text += (loop.sums == Sums::kMeans ? " means of " : " squares of ") + std::to_string(loop.row);
  }
  return text + (loop.large ? " large" : "") + ": " + to_text(loop.expr);
}

}  // namespace xrun::ops
