// Tests: tests/cases/advice_for_values_that_are_not_finite_test.cpp
#include "runtime/device/cpu/non_finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <utility>

#include "ops/simd/simd.h"
#include "runtime/device/cpu/stage_runner.h"

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

// Adds the scale of the loss to an error about a gradient that is computed with it.
void add_scale(const TrainSpec& train, double scale, Error& error) {
  if (train.loss_scale.kind == LossScaleSpec::kDynamic) {
    error.notes.push_back(fmt::format("the scale of the loss has fallen to {:g}, so it is not the cause", scale));
  } else if (train.loss_scale.kind == LossScaleSpec::kFixed && scale > 1) {
    error.notes.push_back(fmt::format("the loss is scaled by {:g}, which may make gradients too large for f16", scale));
    error.help = "write `precision = mixed(f16)`, whose scale adapts, or a smaller `loss_scale`";
  }
}

}  // namespace

std::string no_update_yet(const TrainSpec& train, int64_t step) {
  if (step == 0) {
    return "no update has been made yet, so neither `train.lr` nor `train.clip` is the cause";
  }
  const bool stands = std::ranges::all_of(train.lr, [](const CurveSpec& one) { return one.from == 0 && one.to == 0; });
  return stands ? "`train.lr` is 0, so no update is the cause" : "";
}

std::string advice_about_rate(const TrainSpec& train) {
  return train.clip.kind == ClipSpec::kNone ? "lower `train.lr`, warm it up for longer, or set `train.clip = norm(1)`"
                                            : "lower `train.lr`, or warm it up for longer; `train.clip` is set already";
}

std::string advice_about_operator(const TrainSpec& train, int64_t step, const Node& node, bool own_range) {
  const std::string cause = no_update_yet(train, step);
  if (own_range) {
    const std::string change =
        fmt::format("change the model so that `{}` gets only inputs for which it is finite", node.path);
    return cause.empty() ? change + "; a lower `train.lr` helps only if these inputs have grown since the first step"
                         : cause + ": " + change;
  }
  return cause.empty() ? advice_about_rate(train) : cause + ": check the data and the initial weights";
}

std::string advice_about_loss(const TrainSpec& train, int64_t step) {
  const std::string cause = no_update_yet(train, step);
  return cause.empty() ? advice_about_rate(train)
                       : cause + ": check the function of the loss, its scale and margin, and the initial weights";
}

std::string advice_about_gradient(const TrainSpec& train, int64_t step) {
  const std::string cause = no_update_yet(train, step);
  return cause.empty() ? advice_about_rate(train)
                       : cause +
                             ": a function between there and the loss has no finite derivative at one of its inputs, "
                             "such as `sqrt` at 0 or `acos` at 1";
}

Error nonfinite_gradient(const Module& module, const planner::Program& program, std::span<const double> sums,
                         const StepContext& step) {
  const Graph& graph = module.graph;
  ParamId first;  // a parameter of a head, or if there is no head the last parameter
  for (const planner::Instruction& instruction : program.instructions) {
    for (const planner::Operand& operand : instruction.operands) {
      if (operand.role != planner::Role::kNorms || !operand.param.valid()) {
        continue;
      }
      const auto own = sums.subspan(static_cast<size_t>(operand.offset) / sizeof(double),
                                    static_cast<size_t>(operand.bytes) / sizeof(double));
      const bool broken = std::ranges::any_of(own, [](double sum) { return !std::isfinite(sum); });
      const auto rank = [&](ParamId param) { return std::pair(graph.param(param).head, param.index); };
      if (broken && (!first.valid() || rank(operand.param) > rank(first))) {
        first = operand.param;
      }
    }
  }
  Error error{.kind = ErrorKind::kNonFinite,
              .code = "XG0810",
              .message = fmt::format("the gradients of step {} are not finite", step.step + 1),
              .help = advice_about_gradient(module.train, step.step),
              .span = module.train.span};
  if (!first.valid()) {
    return error;
  }
  error.message = fmt::format("the gradient of `{}` is not finite in step {}", graph.param(first).name, step.step + 1);
  if (!graph.param(first).head) {
    add_scale(module.train, step.loss_scale, error);
  }
  for (const planner::HeadPlan& head : program.heads) {
    if (head.loss.valid() && (head.weight == first || head.bias == first)) {
      const Node& loss = graph.node(head.loss);
      error.notes.push_back(fmt::format("it comes from the loss `{}` ({})", loss.path, loss.op->name));
      error.span = loss.span;
    }
  }
  return error;
}

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
