#include "graph/settings/optimizer_facts.h"

#include <algorithm>
#include <limits>

#include "graph/settings/update_rule.h"

namespace xrun {

std::vector<std::string> states_beside_weights(const TrainSpec& train) {
  std::vector<std::string> names = states_of_rule(train.optimizer.args);
  if (train.ema > 0) {
    names.emplace_back(kMeanState);
  }
  return names;
}

NormReads norm_reads(const CallSpec& optimizer) {
  const auto rule = read_update_rule(optimizer.args);
  if (!rule.ok() || rule->norms.empty()) {
    return {};
  }
  return {.sweeps = std::ranges::max(norm_levels(*rule)) + 1, .states = norms_read_states(*rule)};
}

std::string_view refused_argument(std::string_view argument, double value) {
  // Each test is true for allowed values, so that NaN is rejected. Kernels compute in f32, where a number below kLeast
  // may be 0.
  constexpr double kLeast = std::numeric_limits<float>::min();
  constexpr double kMost = std::numeric_limits<float>::max();
  if (argument == "beta1" || argument == "beta2" || argument == "momentum") {
    return value >= 0 && value < 1 ? "" : "at least 0, and less than 1";
  }
  if (argument == "eps" || argument == "trust") {
    return value >= kLeast && value <= kMost ? "" : value > 0 ? "1.2e-38 to 3.4e38, as f32 has" : "more than 0";
  }
  if (argument == "weight_decay") {
    return value >= 0 && value <= kMost ? "" : value > 0 ? "at most 3.4e38, as f32 has" : "at least 0";
  }
  return {};
}

}  // namespace xrun
