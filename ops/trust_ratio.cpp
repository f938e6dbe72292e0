#include "ops/trust_ratio.h"

#include "graph/base/check.h"
#include "ops/square_sums.h"

namespace xrun::ops {
namespace {

// Keeps the ratio of lars finite where the gradient nearly vanishes.
constexpr double kLarsEps = 1e-8;

// States are read and stay as they are: the update computes the step once more.
template <class L, typename Rule, int kStates>
XRUN_INLINE TrustSums sums_of(const UpdateScalars& u, const float* w, const float* g, const float* s0, const float* s1,
                              int64_t n) {
  SquareSums<L> weights;
  SquareSums<L> steps;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t left = n - i;
    L a{};
    L b{};
    if constexpr (kStates > 1) {
      a = load_upto<L>(s0 + i, left);
      b = load_upto<L>(s1 + i, left);
    }
    const L weight = load_upto<L>(w + i, left);
    weights.add(weight);
    steps.add(Rule::trusted(u, weight, load_upto<L>(g + i, left), a, b));
  }
  return {weights.total(), steps.total()};
}

struct SumsBody {
  template <class L>
  XRUN_INLINE static void run(const OptimizerForm* form, const UpdateScalars* u, const float* w, const float* g,
                              const float* s0, const float* s1, int64_t n, TrustSums* out) {
    *out = form->kind == OptimizerKind::kLamb ? sums_of<L, LambRule, 2>(*u, w, g, s0, s1, n)
                                              : sums_of<L, LarsRule, 1>(*u, w, g, s0, s1, n);
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

float trust_ratio(const OptimizerForm& form, double weight, double step) {
  if (weight == 0 || step == 0) {
    return 1;
  }
  return static_cast<float>(form.kind == OptimizerKind::kLars ? form.trust * weight / (step + kLarsEps)
                                                              : weight / step);
}

}  // namespace xrun::ops
