// The norms of a tensor that an update reads, as those of the trust ratio of lars and lamb. Where weights are cut into
// ranges, the sums of squares of the ranges are added in ascending order, in f64. They have the same bits on every
// instruction set (docs/internals/determinism.md, "Scalars").
#pragma once

#include <span>

#include "ops/optimizer.h"

namespace xrun::ops {

// How many norms of a tensor the form reads, and in how many sweeps they are summed: a norm may depend on others.
int norms_of(const OptimizerForm& form);
int norm_levels_of(const OptimizerForm& form);

// The numbers of a tensor with these norms. REQUIRES: norms_of(form) norms, of which those that are not known yet may
// be any; `scalars` are those of update_scalars.
void set_norms(const OptimizerForm& form, std::span<const double> norms, UpdateScalars& scalars);

// Sets the sums of squares of one level, of a range before its update. Arguments as of `update`; `sums` has one for
// each norm. REQUIRES: the form reads norms.
void norm_squares(Isa isa, const OptimizerForm& form, int level, const UpdateScalars& scalars, const float* w,
                  const float* g, const UpdateStates& states, int64_t n, std::span<double> sums);

}  // namespace xrun::ops
