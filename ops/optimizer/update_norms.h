// Computes the norms of a tensor that an update reads, such as those for the trust ratio of lars and lamb. If the
// weights are divided into ranges, the sums of squares of the ranges are added in ascending order, in f64. The sums
// have the same bits on every instruction set (docs/internals/determinism.md, "Scalars").
#pragma once

#include <span>

#include "ops/optimizer/optimizer.h"

namespace xrun::ops {

// norms_of returns the number of norms of a tensor that the form reads. norm_levels_of returns the number of passes
// over the tensor to compute them, which is more than one if norms depend on other norms.
int norms_of(const OptimizerForm& form);
int norm_levels_of(const OptimizerForm& form);

// Sets the numbers in `scalars` that depend on norms. `scalars` must come from update_scalars. REQUIRES: `norms` has
// norms_of(form) values; norms that are not known yet may be arbitrary.
void set_norms(const OptimizerForm& form, std::span<const double> norms, UpdateScalars& scalars);

// Sets `sums` to the sums of squares of one level, for a range of weights before its update. `sums` has one element for
// each norm; the other arguments are those of `update`. REQUIRES: the form reads norms.
void norm_squares(Isa isa, const OptimizerForm& form, int level, const UpdateScalars& scalars, const float* w,
                  const float* g, const UpdateStates& states, int64_t n, std::span<double> sums);

}  // namespace xrun::ops
