// Looks up the settings of `groups` for one tensor: for each setting, the group with the longest path decides.
#pragma once

#include <optional>
#include <string_view>

#include "graph/settings/specs.h"

namespace xrun {

// Whether `name`, the name of a tensor or of a part of the model, equals `path` or lies below it.
bool is_below(std::string_view path, std::string_view name);

// The value of a setting, such as &GroupSpec::lr, for a tensor; nullopt if no group that contains the tensor sets it.
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

// Describes how the class weights of a head are stored and updated; row_rules takes their name, "id.weight".
struct RowRules {
  RowFormat weights = RowFormat::kF32;  // format of class weights in memory
  RowFormat states = RowFormat::kF32;   // format of optimizer states
  Untouched untouched = Untouched::kAsIs;
  RowPlace rows = RowPlace::kMemory;
};
constexpr std::string_view name_of(Untouched untouched) { return untouched == Untouched::kAsIs ? "as_is" : "exact"; }
constexpr std::string_view name_of(RowPlace rows) { return rows == RowPlace::kMemory ? "memory" : "mapped"; }
// The largest momentum that Untouched::kExact supports. With it the effect of an update ends within a few hundred
// thousand steps, and the table of ops/head/catch_up.h sums over that many steps.
inline constexpr double kMostCatchUpMomentum = 0.9999;
RowRules row_rules(const TrainSpec& train, std::string_view weight);

}  // namespace xrun
