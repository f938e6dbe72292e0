#include "graph/optimizer_def.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "graph/update_rule.h"

namespace xrun {
namespace {

std::vector<std::string> adam_states(const Attrs&) { return {"m", "v"}; }
std::vector<std::string> velocity(const Attrs&) { return {"velocity"}; }
std::vector<std::string> velocity_if_any(const Attrs& arguments) {
  return arguments.real("momentum", 0) != 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{};
}

constexpr std::array<OptimizerDef, 4> kOptimizers{{
    {.name = "adamw",
     .signature = "(beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8, weight_decay: float = 0.01)",
     .doc = "adam with weight decay apart from the gradient",
     .example = "adamw(weight_decay=0.05)",
     .states = adam_states},
    {.name = "lamb",
     .signature = "(beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6, weight_decay: float = 0.01)",
     .doc = "adamw whose step has the norm of the weight, tensor by tensor; in sharded heads adamw",
     .example = "lamb(weight_decay=0.02)",
     .states = adam_states,
     .trust = TrustNorm::kStep},
    {.name = "lars",
     .signature = "(momentum: float = 0.9, weight_decay: float = 1e-4, trust: float = 0.001)",
     .doc =
         "sgd whose rate follows the ratio of the norms of weight and gradient, tensor by tensor; in sharded heads sgd",
     .example = "lars(weight_decay=1e-4)",
     .states = velocity,
     .trust = TrustNorm::kGradient},
    {.name = "sgd",
     .signature = "(momentum: float = 0, weight_decay: float = 0, nesterov: bool = false)",
     .doc = "steepest descent, with momentum if asked; decay is added to the gradient",
     .example = "sgd(momentum=0.9, weight_decay=5e-4)",
     .states = velocity_if_any},
}};

// The value of a piece at `t` steps after its start.
double value_of(const CurvePiece& piece, double t) {
  const double share = piece.steps > 0 ? std::fmin(std::fmax(t / piece.steps, 0.0), 1.0) : 1.0;
  switch (piece.kind) {
    case CurvePiece::kConstant:
      return piece.from;
    case CurvePiece::kWarmup:
      return piece.from + (piece.to - piece.from) * share;
    case CurvePiece::kCosine:
      return piece.to + (piece.from - piece.to) * 0.5 * (1 + std::cos(std::numbers::pi * share));
    case CurvePiece::kPoly:
      return piece.to + (piece.from - piece.to) * std::pow(1 - share, piece.power);
    case CurvePiece::kSteps: {
      double value = piece.from;
      for (const double at : piece.at) {
        value *= t >= at ? piece.by : 1.0;
      }
      return value;
    }
  }
  return piece.to;
}

}  // namespace

const OptimizerDef* find_optimizer(std::string_view name) {
  const auto found = std::ranges::find(kOptimizers, name, &OptimizerDef::name);
  return found == kOptimizers.end() ? nullptr : &*found;
}

const OptimizerDef* find_optimizer(const CallSpec& call) {
  static constexpr OptimizerDef kOwn{.name = "own", .states = states_of_rule};
  return has_update_rule(call.args) ? &kOwn : find_optimizer(call.name);
}

std::vector<const OptimizerDef*> all_optimizers() {
  std::vector<const OptimizerDef*> all;
  for (const OptimizerDef& def : kOptimizers) {
    all.push_back(&def);
  }
  return all;
}

std::vector<std::string> states_beside_weights(const TrainSpec& train) {
  const OptimizerDef* def = find_optimizer(train.optimizer);
  std::vector<std::string> names =
      def == nullptr || def->states == nullptr ? std::vector<std::string>{} : def->states(train.optimizer.args);
  if (train.ema > 0) {
    names.emplace_back(kMeanState);
  }
  return names;
}

std::vector<double> first_values(const CallSpec& call) {
  if (has_update_rule(call.args)) {
    return first_values_of_rule(call.args);
  }
  const OptimizerDef* def = find_optimizer(call);
  return std::vector<double>(def == nullptr ? 0 : def->states(call.args).size());
}

NormReads norm_reads(const CallSpec& call) {
  if (!has_update_rule(call.args)) {
    const OptimizerDef* def = find_optimizer(call);
    return def == nullptr || def->trust == TrustNorm::kNone
               ? NormReads{}
               : NormReads{.sweeps = 1, .states = def->trust == TrustNorm::kStep};
  }
  const auto rule = read_update_rule(call.args);
  if (!rule.ok() || rule->norms.empty()) {
    return {};
  }
  return {.sweeps = std::ranges::max(norm_levels(*rule)) + 1, .states = norms_read_states(*rule)};
}

bool steps_vanish(const OptimizerDef& optimizer, const Attrs& arguments) {
  return !has_update_rule(arguments) && (optimizer.states == nullptr || optimizer.states(arguments).size() < 2);
}

std::string_view refused_argument(std::string_view argument, double value) {
  // Each test holds for good values, so that NaN is refused. Kernels compute in f32, where smaller values are 0.
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  if (argument == "beta1" || argument == "beta2" || argument == "momentum") {
    return value >= 0 && value < 1 ? "" : "at least 0, and less than 1";
  }
  if (argument == "eps" || argument == "trust") {
    return value >= kLeast && value <= kMost ? "" : value > 0 ? "outside of f32" : "more than 0";
  }
  if (argument == "weight_decay") {
    return value >= 0 && value <= kMost ? "" : value > 0 ? "outside of f32" : "at least 0";
  }
  return {};
}

double Curve::at(int64_t step) const {
  auto t = static_cast<double>(step);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (t < pieces[i].steps || i + 1 == pieces.size()) {
      return value_of(pieces[i], t);
    }
    t -= pieces[i].steps;
  }
  return 0;
}

}  // namespace xrun
