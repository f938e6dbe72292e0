#include "ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "graph/settings/known_update.h"
#include "ops/optimizer/known_rules.h"
#include "ops/simd/square_sums.h"

namespace xrun::ops {
namespace {

struct UpdateBody {
  template <class L>
  XRUN_INLINE static void run(const OptimizerForm* form, const UpdateScalars* scalars, float* w, const float* g,
                              float* s0, float* s1, int64_t n) {
    update_range<L>(*form, *scalars, w, g, s0, s1, n);
  }
};

struct MeanBody {
  template <class L>
  XRUN_INLINE static void run(const float* w, float take, float* mean, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const L old = load_upto<L>(mean + i, n - i);
      store_upto(mean + i, moved_mean(old, load_upto<L>(w + i, n - i), take), n - i);
    }
  }
};

UpdateStates states_at(const UpdateStates& states, int64_t begin) {
  UpdateStates moved = states;
  for (float*& state : moved) {
    state = state == nullptr ? nullptr : state + begin;
  }
  return moved;
}

void move_mean(Isa isa, const OptimizerForm& form, const float* w, const UpdateStates& states, int64_t n) {
  if (form.ema > 0) {
    run_for<MeanBody>(isa, w, static_cast<float>(1 - form.ema), states[static_cast<size_t>(form.states)], n);
  }
}

}  // namespace

Result<OptimizerForm> optimizer_form(const CallSpec& spec, std::optional<Isa> compiled_for, double ema) {
  XRUN_ASSIGN(UpdateRule rule, read_update_rule(spec.args));
  const KnownUpdate known = known_update(rule);
  OptimizerForm form{.kind = known.kind == KnownUpdate::kSgd     ? OptimizerKind::kSgd
                             : known.kind == KnownUpdate::kAdamw ? OptimizerKind::kAdamw
                                                                 : OptimizerKind::kOwn,
                     .momentum = known.momentum,
                     .nesterov = known.nesterov,
                     .beta1 = known.beta1,
                     .beta2 = known.beta2,
                     .eps = known.eps,
                     .weight_decay = spec.args.real("weight_decay", 0),
                     .states = rule.states,
                     .ema = ema,
                     .own = nullptr};
  if (form.kind == OptimizerKind::kOwn) {
    XRUN_ASSIGN(OwnUpdate own, OwnUpdate::make(std::move(rule), compiled_for));
    form.own = std::make_shared<const OwnUpdate>(std::move(own));
  }
  return form;
}

UpdateScalars update_scalars(const OptimizerForm& form, double rate, double decay, bool decays, int64_t step,
                             double grad_scale, double grad_limit) {
  UpdateScalars u;
  u.rate = static_cast<float>(rate);
  u.decay = decays ? static_cast<float>(decay) : 0.0F;
  u.momentum = static_cast<float>(form.momentum);
  u.grad_scale = static_cast<float>(grad_scale);
  u.grad_limit = static_cast<float>(grad_limit);
  if (form.kind == OptimizerKind::kOwn) {
    u.own = form.own->scalars(rate, step, decays ? decay : 0);
  } else if (form.kind == OptimizerKind::kAdamw) {
    const auto t = static_cast<double>(step + 1);
    u.keep1 = static_cast<float>(form.beta1);
    u.take1 = static_cast<float>(1 - form.beta1);
    u.keep2 = static_cast<float>(form.beta2);
    u.take2 = static_cast<float>(1 - form.beta2);
    u.correct1 = static_cast<float>(1 / (1 - std::pow(form.beta1, t)));
    u.correct2 = static_cast<float>(1 / (1 - std::pow(form.beta2, t)));
    u.eps = static_cast<float>(form.eps);
  }
  return u;
}

void update(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, float* w, const float* g,
            const UpdateStates& states, int64_t n) {
  if (form.kind == OptimizerKind::kOwn) {
    form.own->run(isa, scalars, w, g, states, n);
  } else {
    run_for<UpdateBody>(isa, &form, &scalars, w, g, states[0], states[1], n);
  }
  move_mean(isa, form, w, states, n);
}

void update_rows(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, float* w, const float* g,
                 const UpdateStates& states, int64_t dim, int64_t begin, int64_t end) {
  const auto is_touched = [&](int64_t row) {
    return std::any_of(g + row * dim, g + (row + 1) * dim, [](float x) { return x != 0; });  // true for NaN
  };
  for (int64_t at = begin; at < end;) {
    const bool touched = is_touched(at / dim);
    int64_t next = (at / dim + 1) * dim;
    while (next < end && is_touched(next / dim) == touched) {
      next += dim;
    }
    next = std::min(next, end);
    if (touched) {
      update(isa, form, scalars, w + at, g + at, states_at(states, at), next - at);
    } else {
      move_mean(isa, form, w + at, states_at(states, at), next - at);
    }
    at = next;
  }
}

double sum_of_squares(Isa isa, const float* g, int64_t n) {
  SquareLanes lanes;
  run_for<SquaresBody>(isa, g, n, &lanes);
  return total_of(lanes);
}

}  // namespace xrun::ops
