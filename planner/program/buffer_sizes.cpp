#include "planner/program/buffer_sizes.h"

#include <map>

#include "graph/layouts/compression.h"
#include "graph/layouts/knn_cells_layout.h"
#include "graph/settings/optimizer_facts.h"

namespace xrun::planner {

std::vector<std::string> optimizer_states(const Module& module) { return states_beside_weights(module.train); }

Bytes pairs_bytes(const Module& module, ParamId param) {
  const int64_t count = module.graph.value(module.graph.param(param).value).type.elements(0, 0);
  return pairs_of(count, largest_density(module.train.compress)) * static_cast<Bytes>(sizeof(GradientPair));
}

Bytes gradient_bytes(const Program& program, const TensorType& gradient) {
  return align_up(gradient.bytes(0, program.norm_rows)) * (program.partials / program.replicas);
}

Bytes shard_bytes(const HeadPlan& head, const HeadShard& shard, ParamId param, Purpose purpose) {
  const int64_t rows = shard.row_end - shard.row_begin;
  if (param != head.weight || purpose == Purpose::kHeadScale || purpose == Purpose::kHeadLast) {
    return rows * element_bytes(RowFormat::kF32);
  }
  return rows * head.dim * element_bytes(purpose == Purpose::kHeadWeight ? head.weights : head.states);
}

Bytes lists_bytes(const HeadPlan& head) { return head.classes * head.neighbours * 4; }

Bytes build_bytes(const Program& program, const HeadPlan& head) {
  const KnnCellsShape shape = knn_cells_shape(program, head);
  return align_up(lists_bytes(head)) +
         (head.exact_graph ? knn_scratch_bytes(shape.graph) : knn_cells_scratch_bytes(shape));
}

std::vector<Bytes> graph_bytes(const Program& program, const HeadPlan& head) {
  return {lists_bytes(head), head.classes * head.dim * static_cast<Bytes>(sizeof(float)), build_bytes(program, head)};
}

std::vector<ShardPart> shard_parts(const Program& program, const Graph& graph, const HeadPlan& head) {
  std::vector<ShardPart> parts;
  std::map<int, Bytes> on_device;
  Bytes stats = 0;
  for (const HeadShard& shard : head.shards) {
    ShardPart part{.stats_offset = stats, .gradient_offset = on_device[shard.device]};
    if (shard.row_begin < shard.row_end) {
      const HeadShape shape = head_shape(program, graph, head, shard, head.rows);
      part.stats = head_stats_bytes(shape);
      part.gradient = head_gradient_bytes(shape);
    }
    stats += part.stats;
    on_device[shard.device] += part.gradient;
    parts.push_back(part);
  }
  return parts;
}

Bytes all_stats_bytes(const std::vector<ShardPart>& parts) {
  return parts.empty() ? 0 : parts.back().stats_offset + parts.back().stats;
}

Bytes device_gradient_bytes(const HeadPlan& head, const std::vector<ShardPart>& parts, int device) {
  Bytes bytes = 0;
  for (size_t s = 0; s < parts.size(); ++s) {
    bytes += head.shards[s].device == device ? parts[s].gradient : 0;
  }
  return bytes;
}

Bytes softmax_bytes(const Program& program, const Graph& graph, const HeadPlan& head, int64_t rows) {
  return head_softmax_bytes(head_shape(program, graph, head, head.shards.front(), rows));
}

Bytes best_bytes(const HeadPlan& head, int64_t rows) { return rows * head.top_k * 8; }

}  // namespace xrun::planner
