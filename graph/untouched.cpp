#include "graph/untouched.h"

namespace xrun {

std::string why_not_exact(const CallSpec& optimizer, const GroupSpec* group) {
  if (optimizer.name != "sgd") {
    return "the steps of `" + optimizer.name + "` have no closed form where the gradient is zero; `sgd` has one";
  }
  const double own_decay = optimizer.args.real("weight_decay", 0);
  const double decay = group == nullptr ? own_decay : group->weight_decay.value_or(own_decay);
  if (decay > 0) {
    return "weight decay moves rows in every step, in proportion to what they are by then";
  }
  if (const double momentum = optimizer.args.real("momentum", 0); momentum > kMostCatchUpMomentum) {
    return "a momentum of " + to_text(AttrValue(momentum)) + " moves rows for too many steps; at most " +
           to_text(AttrValue(kMostCatchUpMomentum)) + " can be summed";
  }
  const auto narrow = [](const std::optional<RowFormat>& format) { return format && *format != RowFormat::kF32; };
  if (group != nullptr && (narrow(group->weights) || narrow(group->states))) {
    const RowFormat format = narrow(group->weights) ? *group->weights : *group->states;
    return "each step would round rows in " + std::string(name_of(format)) + "; rows and states in f32 are exact";
  }
  return {};
}

}  // namespace xrun
