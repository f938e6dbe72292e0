// Decides about the updates of a step from the sums of squares of its gradients (graph/layouts/norm_layout.h): how
// gradients are clipped, and whether all updates are skipped because a gradient left the range of f16. Every device has
// all sums, so all devices and ranks decide the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/module.h"
#include "planner/program/program.h"

namespace xrun::runtime {

struct UpdateDecision {
  bool skips = false;    // no weight is updated in this step
  bool finite = true;    // whether all gradients are finite
  double norm = 0;       // norm of all gradients before clipping, without those that are compressed
  double of_stages = 1;  // factor on gradients of stages: removes the scale of the loss, and clips
  double of_heads = 1;   // factor on gradients of heads, which are computed without the scale
};

// Immutable; threads: any.
class GradientSums {
 public:
  // Consecutive sums of one tensor.
  struct Part {
    int64_t first = 0;
    int64_t count = 0;
    bool of_head = false;
    bool counts = true;  // whether the norm that is clipped contains them
  };

  GradientSums(const Module& module, const planner::Program& program);

  // `sums` are those of the whole layout; the gradients of stages have the factor `loss_scale`. If a gradient is not
  // finite, all updates are skipped if a lower scale can help: the scale is dynamic and above 1, and the gradients of
  // heads, which do not depend on it, are finite.
  UpdateDecision decide(std::span<const double> sums, double loss_scale) const;

  // All sums, in ascending order and without gaps.
  std::span<const Part> parts() const { return parts_; }

 private:
  const TrainSpec& train_;
  std::vector<Part> parts_;
};

}  // namespace xrun::runtime
