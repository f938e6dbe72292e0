#include "planner/buffer_sizes.h"

#include <algorithm>

#include "graph/gradients.h"
#include "graph/optimizer_def.h"

namespace xrun::planner {
namespace {

// Elements of a tensor whose squares one owner sums (docs/determinism.md, "Scalars").
constexpr int64_t kNormChunk = 4096;

}  // namespace

std::vector<std::string> optimizer_states(const Module& module) {
  const OptimizerDef* def = find_optimizer(module.train.optimizer.name);
  return def == nullptr || def->states == nullptr ? std::vector<std::string>{}
                                                  : def->states(module.train.optimizer.args);
}

Bytes gradient_bytes(const Program& program, const TensorType& gradient) {
  return align_up(gradient.bytes(0, program.block_rows)) * (program.partials / program.replicas);
}

Bytes norm_bytes(const Module& module) {
  const Graph& graph = module.graph;
  int64_t sums = 0;
  for (size_t p = 0; p < graph.params.size(); ++p) {
    const Parameter& param = graph.params[p];
    const TensorType& type = graph.value(param.value).type;
    if (has_gradient(graph, ParamId(p)) && (!param.head || module.train.clip.heads)) {
      sums += param.head ? class_block_count(type.dims[0]) : (type.row_elements() + kNormChunk - 1) / kNormChunk;
    }
  }
  return std::max<Bytes>(sums, 1) * static_cast<Bytes>(sizeof(double));
}

Bytes shard_bytes(const HeadPlan& head, const HeadShard& shard, ParamId param) {
  return (shard.row_end - shard.row_begin) * (param == head.weight ? head.dim : 1) * 4;
}

Bytes all_stats_bytes(const Program& program, const Graph& graph, const HeadPlan& head) {
  Bytes bytes = 0;
  for (const HeadShard& shard : head.shards) {
    bytes += head_stats_bytes(head_shape(program, graph, head, shard, head.rows));
  }
  return bytes;
}

std::map<int, Bytes> device_gradient_bytes(const Program& program, const Graph& graph, const HeadPlan& head) {
  std::map<int, Bytes> bytes;
  for (const HeadShard& shard : head.shards) {
    bytes[shard.device] += head_gradient_bytes(head_shape(program, graph, head, shard, head.rows));
  }
  return bytes;
}

Bytes softmax_bytes(const Program& program, const Graph& graph, const HeadPlan& head, int64_t rows) {
  return head_softmax_bytes(head_shape(program, graph, head, head.shards.front(), rows));
}

Bytes best_bytes(const HeadPlan& head, int64_t rows) { return rows * head.top_k * 8; }

}  // namespace xrun::planner
