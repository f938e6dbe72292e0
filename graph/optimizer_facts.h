// What the optimizer of a run keeps beside each weight, and what it reads: the planner counts both. An optimizer is a
// call that carries its update (graph/update_rule.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/specs.h"

namespace xrun {

// Names of all that a weight carries: the states of the optimizer, in the order of its rule, and the running mean of
// `ema` behind them.
inline constexpr std::string_view kMeanState = "ema";
std::vector<std::string> states_beside_weights(const TrainSpec& train);
// What is read before an update to sum norms: sweeps over weight and gradient, and over the states, too, or not.
struct NormReads {
  int sweeps = 0;
  bool states = false;
};
NormReads norm_reads(const CallSpec& optimizer);
// The values that an argument takes, "at least 0, and less than 1", where `value` is not one of them; else empty. An
// argument means the same to every optimizer that has it.
std::string_view refused_argument(std::string_view argument, double value);

}  // namespace xrun
