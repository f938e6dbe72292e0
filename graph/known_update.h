// Updates that other parts know: kernels compute them without a compiler (ops/optimizer.h), and `compress` and class
// rows that catch up need the momentum of sgd. They are known by what a rule computes, whatever its optimizer is
// called.
#pragma once

#include "graph/specs.h"
#include "graph/update_rule.h"

namespace xrun {

// `sgd` and `adamw` of lang/std/optimizers.xgraph with their arguments.
struct KnownUpdate {
  enum Kind { kOther, kSgd, kAdamw };
  Kind kind = kOther;
  double momentum = 0;  // of sgd, which has no state where it is 0
  bool nesterov = false;
  double beta1 = 0;  // of adamw
  double beta2 = 0;
  double eps = 0;
};

// REQUIRES: the kind is not kOther.
UpdateRule rule_of(const KnownUpdate& update);
// The update of which rule_of makes this rule, else kOther.
KnownUpdate known_update(const UpdateRule& rule);
// That of a run; kOther where the call has no rule that can be read.
KnownUpdate known_update(const CallSpec& optimizer);

// Whether the steps of class rows vanish with the gradients: the new weight and states are sums of the weight, the
// gradient and the states with factors, and the states are 0 at first. Steps that are divided by second moments are
// not, so class rows in fp8 cannot hold them: every row moves in every step, and the noise of its rounding adds up.
bool steps_vanish(const CallSpec& optimizer);

}  // namespace xrun
