#include "graph/settings/group_rules.h"

namespace xrun {

bool is_below(std::string_view path, std::string_view name) {
  return name.starts_with(path) && (name.size() == path.size() || name[path.size()] == '.');
}

RowRules row_rules(const TrainSpec& train, std::string_view weight) {
  return {.weights = group_rule(train, weight, &GroupSpec::weights).value_or(RowFormat::kF32),
          .states = group_rule(train, weight, &GroupSpec::states).value_or(RowFormat::kF32),
          .untouched = group_rule(train, weight, &GroupSpec::untouched).value_or(Untouched::kAsIs),
          .rows = group_rule(train, weight, &GroupSpec::rows).value_or(RowPlace::kMemory)};
}

}  // namespace xrun
