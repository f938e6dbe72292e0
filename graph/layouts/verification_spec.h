// The metric `verification` of a graph: how an evaluation compares the features of pairs of pictures
// (runtime/train/evaluation/verification.h).
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "graph/settings/specs.h"

namespace xrun {

struct VerificationSpec {
  bool flip =
      true;  // the feature of a picture is the sum of its feature and that of its mirror image; rows stay as they are
  int64_t folds = 10;
};

// How the features `value` are compared; nullopt if `value` is not the result of `verification`.
std::optional<VerificationSpec> verification_of(const Graph& graph, ValueId value);

// Whether the metric is computed from all samples of a source, and not as a mean of the rows' values. Steps do not
// report such a metric.
bool compares_samples(const Graph& graph, const MetricSpec& metric);

}  // namespace xrun
