// Optimizers and rate curves as records: the language checks by them, and the planner counts their states. The update
// kernels are in ops/optimizer.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/attr.h"
#include "graph/op_def.h"
#include "graph/specs.h"

namespace xrun {

// The norm by which, beside that of the weight, an optimizer scales the step of a tensor: that of the gradient with its
// decay (lars), or that of the step which the states make (lamb).
enum class TrustNorm { kNone, kGradient, kStep };

struct OptimizerDef {
  std::string_view name;
  std::string_view signature;  // "(momentum: float = 0, weight_decay: float = 0, nesterov: bool = false)"
  std::string_view doc;
  std::string_view example;
  // Names of the f32 states that each weight carries, in the order in which kernels take them: {"m", "v"}.
  std::vector<std::string> (*states)(const Attrs& arguments) = nullptr;
  TrustNorm trust = TrustNorm::kNone;
};

const OptimizerDef* find_optimizer(std::string_view name);
// That of a call; a call with an update rule (graph/update_rule.h) is one that is written in the language.
const OptimizerDef* find_optimizer(const CallSpec& call);
std::vector<const OptimizerDef*> all_optimizers();
// Names of all that a weight carries: the states of the optimizer, and the running mean of `ema` behind them.
inline constexpr std::string_view kMeanState = "ema";
std::vector<std::string> states_beside_weights(const TrainSpec& train);
// By state of the optimizer: its value before the first step.
std::vector<double> first_values(const CallSpec& call);
// What is read before an update to sum norms: sweeps over weight and gradient, and over the states, too, or not.
struct NormReads {
  int sweeps = 0;
  bool states = false;
};
NormReads norm_reads(const CallSpec& call);
// Whether the steps of class rows vanish with the gradients. Steps that are divided by second moments do not, so class
// rows in fp8 cannot hold them: every row moves in every step, and the noise of its rounding adds up.
bool steps_vanish(const OptimizerDef& optimizer, const Attrs& arguments);
// The values that an argument takes, "at least 0, and less than 1", where `value` is not one of them; else empty. An
// argument means the same to every optimizer that has it.
std::string_view refused_argument(std::string_view argument, double value);

// The rate over a run: pieces that follow one another. Steps are counted from 0; where the batch grows, they are those
// of its first size (graph/step_sizes.h).
struct CurvePiece {
  enum Kind { kConstant, kWarmup, kCosine, kPoly, kSteps };
  Kind kind = kConstant;
  double from = 0;
  double to = 0;
  double steps = 0;        // span in steps; may be fractional where epochs are
  double power = 1;        // kPoly
  std::vector<double> at;  // kSteps: in steps
  double by = 0.1;         // kSteps
};

struct Curve {
  std::vector<CurvePiece> pieces;
  // The rate of step `step`; after the last piece its final value holds.
  double at(int64_t step) const;
};

}  // namespace xrun
