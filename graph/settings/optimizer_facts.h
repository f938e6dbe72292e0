// The states that the optimizer of a run keeps for each weight, and the values that it reads: the planner counts both.
// An optimizer is a call that carries its update (graph/settings/update_rule.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/settings/specs.h"

namespace xrun {

// Names of all values kept for a weight: the states of the optimizer, in the order of its rule, then the running mean
// of `ema`.
inline constexpr std::string_view kMeanState = "ema";
std::vector<std::string> states_beside_weights(const TrainSpec& train);
// The sweeps that sum norms before the update of a tensor: their number, and whether they read the states in addition
// to the weight and the gradient.
struct NormReads {
  int sweeps = 0;
  bool states = false;
};
NormReads norm_reads(const CallSpec& optimizer);
// Checks the value of an optimizer's argument. Returns the allowed values, such as "at least 0, and less than 1", if
// `value` is not allowed, and an empty text otherwise. An argument has one meaning in every optimizer that has it.
std::string_view refused_argument(std::string_view argument, double value);

}  // namespace xrun
