#include "ops/update_norms.h"

#include <algorithm>

#include "ops/trust_ratio.h"

namespace xrun::ops {

int norms_of(const OptimizerForm& form) {
  return form.has_trust_ratio() ? 2 : form.own != nullptr ? form.own->norms() : 0;
}

int norm_levels_of(const OptimizerForm& form) {
  return form.has_trust_ratio() ? 1 : form.own != nullptr ? form.own->levels() : 0;
}

void set_norms(const OptimizerForm& form, std::span<const double> norms, UpdateScalars& scalars) {
  if (form.has_trust_ratio()) {
    scalars.ratio = trust_ratio(form, norms[0], norms[1]);
  } else if (form.own != nullptr) {
    form.own->set_norms(norms, scalars.own);
  }
}

void norm_squares(Isa isa, const OptimizerForm& form, int level, const UpdateScalars& scalars, const float* w,
                  const float* g, const UpdateStates& states, int64_t n, std::span<double> sums) {
  if (form.own != nullptr) {
    const float* read[kMostUpdateStates];
    std::copy_n(states.begin(), form.states, read);
    form.own->norm_squares(isa, level, scalars, w, g, {read, static_cast<size_t>(form.states)}, n, sums);
    return;
  }
  const TrustSums trust = trust_sums(isa, form, scalars, w, g, states[0], states[1], n);
  sums[0] = trust.weight;
  sums[1] = trust.step;
}

}  // namespace xrun::ops
