// The norms of a tensor that an update reads, such as those for the trust ratio of lars and lamb. If weights are
// divided into ranges, the sums of squares of the ranges are added in ascending order, in f64. They have the same bits
// on every instruction set (docs/internals/determinism.md, "Scalars").
#pragma once

#include <span>

#include "ops/optimizer.h"

namespace xrun::ops {

// The number of norms of a tensor that the form reads, and the number of sweeps to sum them: a norm may depend on
// others.
int norms_of(const OptimizerForm& form);
int norm_levels_of(const OptimizerForm& form);

// Sets the numbers of a tensor with these norms. REQUIRES: norms_of(form) norms, of which those that are not known yet
// may be arbitrary; `scalars` are those of update_scalars.
void set_norms(const OptimizerForm& form, std::span<const double> norms, UpdateScalars& scalars);

// Sets the sums of squares of one level, for a range before its update. Arguments as for `update`; `sums` has one for
// each norm. REQUIRES: the form reads norms.
void norm_squares(Isa isa, const OptimizerForm& form, int level, const UpdateScalars& scalars, const float* w,
                  const float* g, const UpdateStates& states, int64_t n, std::span<double> sums);

}  // namespace xrun::ops
