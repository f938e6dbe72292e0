#include "planner/program/compression_owners.h"

#include <algorithm>

#include "graph/gradients.h"
#include "graph/layouts/compression.h"

namespace xrun::planner {

// Tensors are assigned in the order of the parameters, each to the replica that owns the fewest elements so far. A
// stage has consecutive parameters, so within each stage the replicas also own similar numbers of elements.
CompressionOwners::CompressionOwners(const Program& program, const Module& module)
    : replicas_(program.replicas), sender_replicas_(program.sender_replicas), places_(module.graph.params.size(), -1) {
  std::vector<int64_t> owned(static_cast<size_t>(sender_replicas_), 0);
  for (size_t p = 0; program.training && p < places_.size(); ++p) {
    if (has_gradient(module.graph, ParamId(p)) && is_compressed(module.train, module.graph, ParamId(p))) {
      const auto least = std::ranges::min_element(owned);
      places_[p] = static_cast<int>(least - owned.begin());
      *least += module.graph.value(module.graph.param(ParamId(p)).value).type.elements(0, 0);
    }
  }
}

int replicas_of_sender(const CompressSpec& compress, const Machine& machine, std::span<const std::vector<int>> stages) {
  return compress.is_on() && compress.per_node ? longest_runs(machine.device_nodes, stages) : 1;
}

}  // namespace xrun::planner
