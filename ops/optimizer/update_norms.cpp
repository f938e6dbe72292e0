#include "ops/optimizer/update_norms.h"

#include <algorithm>

namespace xrun::ops {

int norms_of(const OptimizerForm& form) { return form.own != nullptr ? form.own->norms() : 0; }

int norm_levels_of(const OptimizerForm& form) { return form.own != nullptr ? form.own->levels() : 0; }

void set_norms(const OptimizerForm& form, std::span<const double> norms, UpdateScalars& scalars) {
  if (form.own != nullptr) {
    form.own->set_norms(norms, scalars.own);
  }
}

void norm_squares(Isa isa, const OptimizerForm& form, int level, const UpdateScalars& scalars, const float* w,
                  const float* g, const UpdateStates& states, int64_t n, std::span<double> sums) {
  const float* read[kMostUpdateStates];
  std::copy_n(states.begin(), form.states, read);
  form.own->norm_squares(isa, level, scalars, w, g, {read, static_cast<size_t>(form.states)}, n, sums);
}

}  // namespace xrun::ops
