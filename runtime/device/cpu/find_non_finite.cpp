// StageRunner::find_nonfinite: the operator that first gives a value that is not finite.
// Tests: tests/cases/advice_for_values_that_are_not_finite_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

#include "ops/simd/simd.h"
#include "runtime/device/cpu/stage_runner.h"
#include "runtime/device/non_finite.h"

namespace xrun::runtime {
namespace {

// The largest number of ordinary size. Larger numbers come from updates that diverge, or from unscaled data.
constexpr double kOrdinary = 1e6;

struct Range {
  double least = INFINITY;
  double most = -INFINITY;

  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool is_ordinary() const { return least >= -kOrdinary && most <= kOrdinary; }
};

float number_at(DType dtype, const void* data, int64_t i) {
  return dtype == DType::kF32    ? static_cast<const float*>(data)[i]
         : dtype == DType::kBF16 ? ops::to_float(static_cast<const ops::Bf16*>(data)[i])
                                 : ops::to_float(static_cast<const ops::Half*>(data)[i]);
}

// Returns the range of values in a tensor; nullopt if its elements are not real numbers.
std::optional<Range> range_of(const TensorType& type, const void* data, int64_t count) {
  Range range;
  if (!is_computed(type.dtype)) {
    return std::nullopt;
  }
  for (int64_t i = 0; i < count; ++i) {
    range.add(number_at(type.dtype, data, i));
  }
  return range;
}

}  // namespace

// Finds the first operator whose result is not finite: runs the row block again, which is possible because a forward
// pass writes only its own results, and checks every node's result. The ranges of inputs are determined before the
// operator runs, since it may overwrite them. Weights are skipped, since kernels may store them in another form.
Error StageRunner::find_nonfinite(const BoundPass& pass, const Block& block, const StepContext& step) {
  const int64_t first_row = block.index * program_.norm_rows;
  const int64_t last_row = first_row + program_.norm_rows - 1;
  const std::string rows =
      (first_row == last_row ? fmt::format("row {}", first_row) : fmt::format("rows {} to {}", first_row, last_row)) +
      " of the batch" + (program_.training ? fmt::format(" of step {}", step.step + 1) : "");
  const auto elements = [this](const TensorType& type) {
    return type.elements(program_.norm_rows, program_.norm_rows);
  };
  for (const BoundNode& bound : pass.nodes) {
    const Node& node = graph_.node(bound.node);
    Error error{.kind = ErrorKind::kNonFinite, .code = "XG0810", .span = node.span};
    bool own_range = true;
    for (int32_t i = 0; i < bound.inputs; ++i) {
      const Value& value = graph_.value(node.inputs[static_cast<size_t>(i)]);
      const BoundOperand& operand = pass.operands[static_cast<size_t>(bound.first_operand + i)];
      const std::byte* const data = address(operand, block.moved, step);
      if (operand.begin.input >= 0 && !is_finite(value.type, data)) {
        error.message = fmt::format("`{}` ({}) reads data of `{}` that are not finite, for {}", node.path,
                                    node.op->name, value.name, rows);
        error.help = "fix the samples, or the stages of `data` that make them";
        return error;
      }
      const bool computed = operand.begin.input >= 0 || value.producer.valid();
      const auto range = computed ? range_of(value.type, data, elements(value.type)) : std::nullopt;
      own_range = own_range && computed && (!range || range->is_ordinary());
      if (range) {
        error.notes.push_back(
            fmt::format("its input `{}` ranges from {:.4g} to {:.4g}", value.name, range->least, range->most));
      }
    }
    if (const Status status = run_node(pass, bound, block, step); !status.ok()) {
      return status.error();
    }
    for (int32_t i = 0; i < bound.outputs; ++i) {
      const auto at = static_cast<size_t>(bound.first_operand + bound.inputs + i);
      if (is_finite(graph_.value(node.outputs[static_cast<size_t>(i)]).type,
                    address(pass.operands[at], block.moved, step))) {
        continue;
      }
      error.message = fmt::format("`{}` ({}) gives a value that is not finite, for {}", node.path, node.op->name, rows);
      error.help = program_.training ? advice_about_operator(train_, step.step, node, own_range)
                                     : "use an earlier checkpoint, or check the data";
      return error;
    }
  }
  return {ErrorKind::kNonFinite, "XG0810",
          "a value that is not finite appeared and was gone in a second computation, for " + rows,
          "run again with `--deterministic`"};
}

}  // namespace xrun::runtime
