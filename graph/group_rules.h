// What groups of tensors say about one tensor: of each setting the value in the group with the longest path.
#pragma once

#include <optional>
#include <string_view>

#include "graph/specs.h"

namespace xrun {

// Whether a tensor or a part of the model is called `path`, or lies below it.
bool is_below(std::string_view path, std::string_view name);

// `setting`: &GroupSpec::lr. None where no group that the tensor is in has it.
template <typename T>
std::optional<T> group_rule(const TrainSpec& train, std::string_view tensor, std::optional<T> GroupSpec::*setting) {
  const GroupSpec* best = nullptr;
  for (const GroupSpec& group : train.groups) {
    if (group.*setting && is_below(group.path, tensor) && (best == nullptr || group.path.size() >= best->path.size())) {
      best = &group;
    }
  }
  return best == nullptr ? std::nullopt : best->*setting;
}

// How the class weights of a head are kept and updated. `weight`: their name, "id.weight".
struct RowRules {
  RowFormat weights = RowFormat::kF32;  // in memory
  RowFormat states = RowFormat::kF32;   // of the optimizer
  Untouched untouched = Untouched::kAsIs;
  RowPlace rows = RowPlace::kMemory;
};
constexpr std::string_view name_of(Untouched untouched) { return untouched == Untouched::kAsIs ? "as_is" : "exact"; }
constexpr std::string_view name_of(RowPlace rows) { return rows == RowPlace::kMemory ? "memory" : "mapped"; }
// Rows follow training of all classes (Untouched::kExact) up to this momentum: the effect of an update ends within a few
// hundred thousand steps, over which a table sums (ops/head/catch_up.h).
inline constexpr double kMostCatchUpMomentum = 0.9999;
RowRules row_rules(const TrainSpec& train, std::string_view weight);

}  // namespace xrun
