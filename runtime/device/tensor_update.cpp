#include "runtime/device/tensor_update.h"

#include "graph/settings/group_rules.h"

namespace xrun::runtime {

TensorUpdate rule_of(const TrainSpec& train, const ops::OptimizerForm& form, const Graph& graph, ParamId param) {
  const Parameter& parameter = graph.param(param);
  TensorUpdate rule{.rate_factor = group_rule(train, parameter.name, &GroupSpec::lr).value_or(1),
                    .decay = group_rule(train, parameter.name, &GroupSpec::weight_decay).value_or(form.weight_decay),
                    .decays = graph.value(parameter.value).type.rank() > 1};
  if (train.clip.kind == ClipSpec::kValue) {
    rule.grad_limit = train.clip.limit;
  }
  return rule;
}

ops::UpdateScalars scalars_of(const TensorUpdate& rule, const ops::OptimizerForm& form, double rate, int64_t step,
                              double grad_scale) {
  return ops::update_scalars(form, rate * rule.rate_factor, rule.decay, rule.decays, step, grad_scale, rule.grad_limit);
}

}  // namespace xrun::runtime
