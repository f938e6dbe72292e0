// Updates contiguous ranges of f32 weights: with kernels for sgd and adamw (graph/settings/known_update.h), and with
// compiled or interpreted loops for all other rules (ops/optimizer/own_update.h). Every element is updated
// independently, so a tensor may be divided into ranges anywhere. Norms that an update reads are computed before it
// (ops/optimizer/update_norms.h). Sources: docs/internals/algorithms.md, "Optimizers".
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>

#include "graph/base/result.h"
#include "graph/settings/specs.h"
#include "graph/types/attr.h"
#include "ops/optimizer/own_update.h"
#include "ops/optimizer/update_scalars.h"
#include "ops/simd/isa.h"

namespace xrun::ops {

enum class OptimizerKind { kSgd, kAdamw, kOwn };

// The addresses of the states of a range of weights, then of their running mean if the form keeps one, then nulls.
inline constexpr int kMostKeptStates = kMostUpdateStates + 1;
using UpdateStates = std::array<float*, kMostKeptStates>;

// An optimizer with its arguments. Each weight tensor has `states` f32 arrays of its size. The states of the two
// kernels start at zero:
//   sgd    s0: velocity (only with momentum)
//   adamw  s0: m, s1: v
// Rules without a kernel have no numbers here, except that lars has its `momentum`, for compressed gradients.
struct OptimizerForm {
  OptimizerKind kind = OptimizerKind::kSgd;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int states = 0;
  double ema = 0;  // fraction of the running mean that a step keeps; 0: no mean. The mean follows the states
  std::shared_ptr<const OwnUpdate> own;  // the update rule if `kind` is kOwn

  int kept_states() const { return states + (ema > 0 ? 1 : 0); }
};

// Returns the form of `optimizer = name(arguments)`. A rule without a kernel is compiled for `compiled_for`, or
// interpreted without it. Errors: those of read_update_rule and OwnUpdate::make.
Result<OptimizerForm> optimizer_form(const CallSpec& spec, std::optional<Isa> compiled_for = {}, double ema = 0);

// The scalars of one step for one tensor, computed in f64 (docs/internals/determinism.md, "Scalars").
struct UpdateScalars : KnownScalars {
  std::array<float, kMostUpdateScalars> own{};  // OwnUpdate::scalars, computed with norms of 0
};

// Returns the scalars of step `step`, which counts from 0. `rate` is the value of the learning-rate curve times the
// factor of the group. `decay` is the group's weight decay, or form.weight_decay if the group does not set it. `decays`
// is false for tensors of one dimension.
UpdateScalars update_scalars(const OptimizerForm& form, double rate, double decay, bool decays, int64_t step,
                             double grad_scale = 1, double grad_limit = std::numeric_limits<double>::infinity());

// Updates n weights with the rule of `form`, compiled for `isa`, and then their running mean, if there is one:
// mean += (w - mean) · (1 - ema).
void update(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, float* w, const float* g,
            const UpdateStates& states, int64_t n);

// Updates the elements begin..end of a table with rows of `dim` numbers as `update` does, but leaves rows whose
// gradient is zero, and their states, as they are; only their running mean follows. All addresses are those of element
// 0.
void update_rows(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, float* w, const float* g,
                 const UpdateStates& states, int64_t dim, int64_t begin, int64_t end);

// Returns the sum of squares of a gradient in f64, for clip = norm. It has sixteen running sums, which are added in a
// fixed tree (ops/simd/square_sums.h).
double sum_of_squares(Isa isa, const float* g, int64_t n);

}  // namespace xrun::ops
