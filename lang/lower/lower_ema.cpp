// Lowers `ema`, the running mean of the weights.
#include <algorithm>
#include <fmt/format.h>

#include "graph/settings/group_rules.h"
#include "lang/lower/module_builder.h"

namespace xrun::lang {

void ModuleBuilder::lower_ema(const SettingNode& node, Scope& scope, const SettingDef& def) {
  if (word(node) == def.fallback) {
    return;
  }
  const auto keeps = real(node, scope, def);
  if (!keeps) {
    return;
  }
  if (*keeps >= 1) {
    ev_.refuse("XG0214", value_span(node), "`ema` must be less than 1", "1 or more",
               {"give the fraction of the mean that is kept in each step: ema = 0.999"});
    return;
  }
  module_.train.ema = *keeps;
  ema_span_ = value_span(node);
}

// Checks the settings with which `ema` cannot be combined. A mean is computed directly after the updates of a step.
// Updates of rows that catch up, and of weights whose gradients are sent in parts, are partly made later or elsewhere.
void ModuleBuilder::check_ema() {
  const TrainSpec& train = module_.train;
  if (train.ema <= 0) {
    return;
  }
  if (train.compress.is_on()) {
    ev_.not_yet(ema_span_, "`ema` with `compress`", {"leave one of the two out"});
  }
  for (const Parameter& parameter : ev_.graph().params) {
    const RowRules rules = row_rules(train, parameter.name);
    if (!parameter.head || ev_.graph().value(parameter.value).type.rank() < 2) {
      continue;
    }
    if (rules.untouched == Untouched::kExact) {
      ev_.not_yet(ema_span_, {"`ema` with class rows that catch up, as those of `{}`,", parameter.name},
                  {"leave one of the two out: untouched = as_is"});
    }
    if (rules.rows == RowPlace::kMapped && rules.weights != rules.states) {
      ev_.not_yet(ema_span_,
                  {"`ema` with rows in a file whose states have another format, as those of `{}`,", parameter.name},
                  {"give both the same format: states = {}", name_of(rules.weights)});
    }
  }
}

}  // namespace xrun::lang
