#include "planner/program/save_size.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace xrun::planner {

bool is_saved(Purpose purpose) {
  return purpose == Purpose::kWeight || purpose == Purpose::kState || purpose == Purpose::kOptimizer ||
         purpose == Purpose::kHeadWeight || purpose == Purpose::kHeadOptimizer || purpose == Purpose::kHeadScale ||
         purpose == Purpose::kHeadLast || purpose == Purpose::kResidual || purpose == Purpose::kHeadLists ||
         purpose == Purpose::kHeadSnapshot;
}

std::vector<Bytes> save_by_node(const Program& program, const Machine& machine) {
  std::vector<Bytes> nodes(static_cast<size_t>(machine.nodes()), 0);
  std::set<std::tuple<Purpose, ParamId, int, int, int>> known;  // purpose, parameter, state, head, part
  for (const Buffer& buffer : program.buffers) {
    const int part = buffer.purpose == Purpose::kResidual ? buffer.replica : buffer.shard;
    if (is_saved(buffer.purpose) && !is_mapped(program, buffer) &&
        known.emplace(buffer.purpose, buffer.param, buffer.state, buffer.head, part).second) {
      const int node = buffer.device == kHost ? 0 : machine.node_of(buffer.device);  // rank 0 writes lists of classes
      nodes[static_cast<size_t>(node)] += buffer.bytes;
    }
  }
  return nodes;
}

}  // namespace xrun::planner
