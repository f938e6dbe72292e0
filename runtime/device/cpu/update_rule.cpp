#include "runtime/device/cpu/update_rule.h"

namespace xrun::runtime {
namespace {

bool has_prefix(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '.');
}

}  // namespace

UpdateRule rule_of(const TrainSpec& train, const ops::OptimizerForm& form, const Graph& graph, ParamId param) {
  const Parameter& parameter = graph.param(param);
  UpdateRule rule{1, form.weight_decay, graph.value(parameter.value).type.rank() > 1};
  if (train.clip.kind == ClipSpec::kValue) {
    rule.grad_limit = train.clip.limit;
  }
  size_t longest_rate = 0;
  size_t longest_decay = 0;
  for (const GroupSpec& group : train.groups) {
    if (!has_prefix(parameter.name, group.path)) {
      continue;
    }
    if (group.lr && group.path.size() >= longest_rate) {
      rule.rate_factor = *group.lr;
      longest_rate = group.path.size();
    }
    if (group.weight_decay && group.path.size() >= longest_decay) {
      rule.decay = *group.weight_decay;
      longest_decay = group.path.size();
    }
  }
  return rule;
}

ops::UpdateScalars scalars_of(const UpdateRule& rule, const ops::OptimizerForm& form, double rate, int64_t step,
                              double grad_scale) {
  return ops::update_scalars(form, rate * rule.rate_factor, rule.decay, rule.decays, step, grad_scale, rule.grad_limit);
}

}  // namespace xrun::runtime
