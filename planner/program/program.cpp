// Tests: tests/planner/emit/emit_test.cpp, tests/planner/report/text_test.cpp
#include "planner/program/program.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

#include "graph/base/check.h"
#include "graph/layouts/gpu_head.h"

namespace xrun::planner {

std::vector<bool> Stage::runs_again() const {
  const std::set<NodeId> again(recomputed.begin(), recomputed.end());
  std::vector<bool> runs;
  std::ranges::transform(forward, std::back_inserter(runs), [&](NodeId node) { return again.contains(node); });
  return runs;
}

const char* Program::letter_of(const Instruction& pass) const {
  const Stage& stage = stages[static_cast<size_t>(pass.stage)];
  if (pass.kind == Kind::kForward) {
    return "F";
  }
  const bool is_whole = pass.nodes.size() == stage.recomputed.size() + stage.backward.size();
  if (is_whole || schedule == PipelineKind::kGpipe || schedule == PipelineKind::kOneFOneB) {
    return "B";
  }
  const NodeId first = (stage.recomputed.empty() ? stage.backward : stage.recomputed).front();
  return pass.nodes.front() == first ? "I" : "W";
}

int Program::stages_of_device() const {
  std::set<int> used;
  for (const Stage& stage : stages) {
    used.insert(stage.devices.begin(), stage.devices.end());
  }
  return used.empty() ? 1 : static_cast<int>(stages.size()) * replicas / static_cast<int>(used.size());
}

PipelineHint Program::pipeline() const {
  PipelineHint hint{.kind = schedule, .warm_up = warm_up};
  hint.chunks = schedule == PipelineKind::kInterleaved ? stages_of_device() : hint.chunks;
  return hint;
}

std::vector<ClassRange> classes_of_dx_terms(const Instruction& sum, const HeadPlan& head) {
  std::vector<ClassRange> terms;
  for (const Operand& operand : sum.operands) {
    if (operand.role == Role::kDx && operand.access == Access::kRead) {
      const HeadShard& shard = head.shards[static_cast<size_t>(operand.index)];
      if (!terms.empty()) {
        terms.back().end = shard.row_begin;
      }
      // The last term of a sum on a node is one shard and ends with it. The terms of kReduceDx together have all
      // classes, so its last term ends with the last class.
      terms.push_back({shard.row_begin, sum.kind == Kind::kSumDx ? shard.row_end : head.classes});
    }
  }
  return terms;
}

Bytes stats_scratch_bytes(const Program& program, const Graph& graph, const HeadPlan& head) {
  if (program.gpu.empty()) {
    return 0;
  }
  std::vector<ClassRange> shards;
  for (const HeadShard& shard : head.shards) {
    shards.push_back({shard.row_begin, shard.row_end});
  }
  const HeadShape shape = head_shape(program, graph, head, head.shards.front(), head.rows);
  return gpu_join_scratch(shape, shards, head.label.valid()).total;
}

Bytes dx_scratch_bytes(const Program& program, const Graph& graph, const HeadPlan& head,
                       std::span<const ClassRange> terms) {
  if (program.gpu.empty()) {
    return 0;
  }
  const HeadShape shape = head_shape(program, graph, head, head.shards.front(), head.rows);
  return gpu_dx_scratch_bytes(shape, terms, program.micro_batch_rows());
}

HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows) {
  HeadShape shape;
  shape.blocks = head.blocks();
  shape.dim = head.dim;
  shape.shard = {shard.row_begin, shard.row_end};
  shape.rows = rows;
  shape.norm_rows = program.norm_rows;
  shape.bf16 = head.bf16;
  shape.features = graph.value(head.feature).type.dtype;
  shape.f16 = shape.features == DType::kF16;
  const Node& node = graph.node(head.node);
  XRUN_CHECK(node.op->head != nullptr, "a head's node is a classifier");
  shape.form = node.op->head(node.attrs);
  if (head.loss.valid()) {
    const Node& loss = graph.node(head.loss);
    XRUN_CHECK(loss.op->margin != nullptr, "a loss on a head has a margin form");
    const auto margin = loss.op->margin(loss.attrs);
    XRUN_CHECK(margin.ok(), "the arguments of a loss were checked");
    shape.margin = *margin;
  } else {
    shape.margin.scale = node.attrs.real("scale", 1);  // set for inference
  }
  shape.row_weight = head.row_weight;
  shape.top_k = head.top_k;
  shape.workers = program.threads[static_cast<size_t>(shard.device)];
  shape.active = head.active;
  shape.step_rows = program.batch;
  shape.neighbours = head.neighbours;
  shape.log_q = head.log_q;
  shape.untouched = head.untouched;
  shape.weights = head.weights;
  shape.states = head.states;
  shape.state_count = head.state_count;
  shape.kept_blocks = shard.kept_blocks;
  shape.gpu = program.gpu.empty() ? std::nullopt : std::optional(GpuHeadWork{});
  return shape;
}

bool is_mapped(const Program& program, const Buffer& buffer) {
  const bool rows = buffer.purpose == Purpose::kHeadWeight || buffer.purpose == Purpose::kHeadOptimizer ||
                    buffer.purpose == Purpose::kHeadScale || buffer.purpose == Purpose::kHeadLast;
  return rows && buffer.head >= 0 && buffer.head < std::ssize(program.heads) &&
         program.heads[static_cast<size_t>(buffer.head)].mapped;
}

Bytes mapped_bytes(const Program& program, int device) {
  if (std::ranges::none_of(program.heads, &HeadPlan::mapped)) {
    return 0;
  }
  Bytes sum = 0;
  for (const Buffer& buffer : program.buffers) {
    sum += buffer.device == device && is_mapped(program, buffer) ? align_up(buffer.bytes, kMappedAlignment) : 0;
  }
  return sum;
}

RowsLayout rows_layout(const Program& program, const Graph& graph, size_t head) {
  const HeadPlan& plan = program.heads[head];
  RowsLayout layout{.tensor = graph.param(plan.weight).name, .rows = plan.classes};
  for (const Buffer& buffer : program.buffers) {
    const bool known = std::ranges::find(layout.sections, buffer.name, &RowsSection::name) != layout.sections.end();
    if (buffer.head != static_cast<int32_t>(head) || !is_mapped(program, buffer) || known) {
      continue;
    }
    const auto shard = std::ranges::find(plan.shards, buffer.shard, &HeadShard::shard);
    XRUN_CHECK(shard != plan.shards.end() && shard->row_end > shard->row_begin, "class rows of no shard");
    const bool weights = buffer.purpose == Purpose::kHeadWeight && buffer.param == plan.weight;
    const bool states = buffer.purpose == Purpose::kHeadOptimizer && buffer.param == plan.weight;
    const RowFormat format = weights ? plan.weights : states ? plan.states : RowFormat::kF32;
    const DType dtype = buffer.purpose == Purpose::kHeadLast ? DType::kI32
                        : format == RowFormat::kF32          ? DType::kF32
                        : format == RowFormat::kBf16         ? DType::kBF16
                                                             : DType::kF8E4M3;
    layout.sections.push_back({.name = buffer.name,
                               .dtype = std::string(name_of(dtype)),
                               .row_bytes = buffer.bytes / (shard->row_end - shard->row_begin)});
  }
  return layout;
}

KnnShape knn_shape(const Program& program, const HeadPlan& head) {
  return {.classes = head.classes,
          .dim = head.dim,
          .neighbours = head.neighbours,
          .workers = std::accumulate(program.threads.begin(), program.threads.end(), 0)};
}

KnnCellsShape knn_cells_shape(const Program& program, const HeadPlan& head) {
  return {.graph = knn_shape(program, head), .probes = head.probes};
}

int workers_of_rank(const Program& program, int rank) {
  int workers = 0;
  for (int d = 0; d < program.devices; ++d) {
    workers += program.rank_of(d) == rank ? program.threads[static_cast<size_t>(d)] : 0;
  }
  return workers;
}

}  // namespace xrun::planner
