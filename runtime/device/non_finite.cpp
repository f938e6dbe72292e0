// Tests: tests/cases/advice_for_values_that_are_not_finite_test.cpp
#include "runtime/device/non_finite.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <utility>

namespace xrun::runtime {
namespace {

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

std::vector<bool> watched_values(const Graph& graph, const planner::Program& program) {
  std::vector<bool> watched(graph.values.size(), false);
  const auto watch = [&](ValueId value) {
    if (value.valid()) {
      watched[static_cast<size_t>(value.index)] = true;
    }
  };
  for (const LossTerm& term : graph.loss) {
    watch(term.rows);
  }
  for (const planner::HeadPlan& head : program.heads) {
    watch(head.feature);
  }
  for (const planner::Stage& stage : program.stages) {
    std::for_each(stage.received.begin(), stage.received.end(), watch);
  }
  return watched;
}

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

}  // namespace xrun::runtime
