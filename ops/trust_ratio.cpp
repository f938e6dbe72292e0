#include "ops/trust_ratio.h"

#include <cmath>

#include "graph/base/check.h"
#include "ops/square_sums.h"

namespace xrun::ops {
namespace {

// Keeps the ratio of lars finite where the gradient nearly vanishes.
constexpr double kLarsEps = 1e-8;

// States are read and stay as they are: the update computes the step once more.
template <typename Rule, int kStates>
XRUN_INLINE TrustSums sums_of(const UpdateScalars& u, const float* w, const float* g, const float* s0, const float* s1,
                              int64_t n) {
  SquareSums weights;
  SquareSums steps;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    F16 a{};
    F16 b{};
    if constexpr (kStates > 1) {
      a = load_upto(s0 + i, left);
      b = load_upto(s1 + i, left);
    }
    const F16 weight = load_upto(w + i, left);
    weights.add(weight);
    steps.add(Rule::trusted(u, weight, load_upto(g + i, left), a, b));
  }
  return {weights.total(), steps.total()};
}

struct SumsBody {
  XRUN_INLINE static void run(const OptimizerForm* form, const UpdateScalars* u, const float* w, const float* g,
                              const float* s0, const float* s1, int64_t n, TrustSums* out) {
    *out = form->kind == OptimizerKind::kLamb ? sums_of<LambRule, 2>(*u, w, g, s0, s1, n)
                                              : sums_of<LarsRule, 1>(*u, w, g, s0, s1, n);
  }
};

}  // namespace

TrustSums trust_sums(Isa isa, const OptimizerForm& form, const UpdateScalars& scalars, const float* w, const float* g,
                     const float* s0, const float* s1, int64_t n) {
  XRUN_DCHECK(form.has_trust_ratio(), "sums for an optimizer without a trust ratio");
  TrustSums sums;
  run_for<SumsBody>(isa, &form, &scalars, w, g, s0, s1, n, &sums);
  return sums;
}

float trust_ratio(const OptimizerForm& form, const TrustSums& sums) {
  const double weight = std::sqrt(sums.weight);
  const double step = std::sqrt(sums.step);
  if (weight == 0 || step == 0) {
    return 1;
  }
  return static_cast<float>(form.kind == OptimizerKind::kLars ? form.trust * weight / (step + kLarsEps)
                                                              : weight / step);
}

}  // namespace xrun::ops
