// Updates that other parts recognise: kernels compute sgd and adamw without a compiler (ops/optimizer/optimizer.h),
// `compress` needs the momentum of sgd or lars, and class rows that catch up need that of sgd. Updates are recognised
// by the rule's operations, not by the optimizer's name.
#pragma once

#include "graph/settings/specs.h"
#include "graph/settings/update_rule.h"

namespace xrun {

inline constexpr double kTrustEps = 1e-8;  // keeps the trust ratio of lars finite

// `sgd`, `adamw` and `lars` of lang/std/optimizers.xgraph with their arguments.
struct KnownUpdate {
  enum Kind { kOther, kSgd, kAdamw, kLars };
  Kind kind = kOther;
  double momentum = 0;  // momentum of sgd, which has no state if it is 0, and of lars
  bool nesterov = false;
  double beta1 = 0;  // first decay rate of adamw
  double beta2 = 0;
  double eps = 0;
  double trust = 0;  // factor of the trust ratio of lars
};

// The update rule of a known update. REQUIRES: the kind is not kOther.
UpdateRule rule_of(const KnownUpdate& update);
// The update whose rule_of equals this rule, else kOther.
KnownUpdate known_update(const UpdateRule& rule);
// The update of a run's optimizer; kOther if the call has no readable rule.
KnownUpdate known_update(const CallSpec& optimizer);

// Whether the updates of class rows become 0 as the gradients become 0. This holds if the new weight and states are
// sums of the weight, the gradient and the states with factors, and the states start at 0. It does not hold for updates
// that are divided by second moments: there every row moves in every step, and the noise of its rounding adds up. Class
// rows in fp8 therefore need an optimizer for which this function returns true.
bool steps_vanish(const CallSpec& optimizer);

}  // namespace xrun
