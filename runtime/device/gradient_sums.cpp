#include "runtime/device/gradient_sums.h"

#include <algorithm>
#include <cmath>

#include "graph/layouts/compression.h"
#include "graph/layouts/norm_layout.h"

namespace xrun::runtime {

GradientSums::GradientSums(const Module& module, const planner::Program& program) : train_(module.train) {
  const NormLayout layout = norm_layout(module, program.senders());
  for (size_t p = 0; p < layout.first.size(); ++p) {
    if (layout.first[p] >= 0) {
      const bool compressed = is_compressed(module.train, module.graph, ParamId(p));
      parts_.push_back({.first = layout.first[p],
                        .count = layout.count[p] * (compressed ? program.senders() : 1),
                        .of_head = module.graph.params[p].head,
                        .counts = !compressed});
    }
  }
  std::ranges::sort(parts_, {}, &Part::first);
}

UpdateDecision GradientSums::decide(std::span<const double> sums, double loss_scale) const {
  double total = 0;
  bool heads_are_finite = true;
  bool all_are_finite = true;
  for (const Part& part : parts_) {
    const double factor = part.of_head ? 1 : 1 / (loss_scale * loss_scale);  // a power of two
    for (const double sum : sums.subspan(static_cast<size_t>(part.first), static_cast<size_t>(part.count))) {
      total += part.counts ? sum * factor : 0;
      all_are_finite = all_are_finite && std::isfinite(sum);
      heads_are_finite = heads_are_finite && (!part.of_head || std::isfinite(sum));
    }
  }
  UpdateDecision decision{.finite = all_are_finite, .norm = std::sqrt(total), .of_stages = 1 / loss_scale};
  if (!decision.finite) {
    decision.skips = train_.loss_scale.kind == LossScaleSpec::kDynamic && loss_scale > 1 && heads_are_finite;
    return decision;
  }
  if (train_.clip.kind == ClipSpec::kNorm && decision.norm > train_.clip.limit) {
    const double factor = train_.clip.limit / decision.norm;
    decision.of_stages = factor / loss_scale;
    decision.of_heads = train_.clip.heads ? factor : 1;
  }
  return decision;
}

}  // namespace xrun::runtime
