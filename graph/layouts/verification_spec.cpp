#include "graph/layouts/verification_spec.h"

namespace xrun {

std::optional<VerificationSpec> verification_of(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || graph.node(producer).op->name != "verification") {
    return std::nullopt;
  }
  const Attrs& attrs = graph.node(producer).attrs;
  const VerificationSpec usual;
  return VerificationSpec{.flip = attrs.flag("flip", usual.flip), .folds = attrs.integer("folds", usual.folds)};
}

bool compares_samples(const Graph& graph, const MetricSpec& metric) {
  return metric.neighbours > 0 || verification_of(graph, metric.value).has_value();
}

}  // namespace xrun
