#include "runtime/executor/head_runner.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/base/check.h"
#include "runtime/executor/row_offsets.h"

namespace xrun::runtime {
namespace {

using planner::Buffer;
using planner::HeadPlan;
using planner::Instruction;
using planner::Pass;
using planner::Purpose;

float* floats(std::byte* data) { return reinterpret_cast<float*>(data); }

}  // namespace

HeadRunner::HeadRunner(const Module& module, const planner::Program& program, const BoundMemory& memory,
                       const Binder& binder, const HeadSet& heads, const NormLayout& norms,
                       const ops::OptimizerForm& form)
    : module_(module), program_(program), memory_(memory), binder_(binder), heads_(heads), norms_(norms), form_(form) {}

// The rows of the pass, or of the whole batch, in the buffer of `value` that the instruction reads.
RowsAt HeadRunner::rows_at(const Instruction& instruction, const HeadPlan& head, ValueId value,
                           bool whole_batch) const {
  const Buffer* buffer = find_value(program_, instruction, value);
  if (buffer == nullptr) {
    return {};
  }
  const int64_t place = whole_batch ? 0 : pass_place(head, *buffer, instruction.micro_batch);
  const Bytes offset = module_.graph.value(value).type.bytes(place, program_.block_rows);
  if (buffer->purpose == Purpose::kInput) {
    return {.input = binder_.input_of(value), .offset = offset};
  }
  return {.base = memory_.at(*buffer) + offset};
}

void HeadRunner::bind_weights(const HeadPlan& head, int shard, BoundHead& bound) const {
  const auto find = [&](ParamId param, Purpose purpose, int slot) -> std::byte* {
    const Buffer* buffer = param.valid() ? binder_.find_param(param, purpose, -1, slot, shard) : nullptr;
    return buffer == nullptr ? nullptr : memory_.at(*buffer);
  };
  bound.weights.weight = floats(find(head.weight, Purpose::kHeadWeight, 0));
  bound.weights.bias = floats(find(head.bias, Purpose::kHeadWeight, 0));
  bound.weights.prepared = floats(find(head.weight, Purpose::kHeadPrepared, 0));
  for (int slot = 0; slot < form_.states; ++slot) {
    bound.update.weight_states[slot] = floats(find(head.weight, Purpose::kHeadOptimizer, slot));
    bound.update.bias_states[slot] = floats(find(head.bias, Purpose::kHeadOptimizer, slot));
  }
  bound.update.form = form_;
}

BoundHead HeadRunner::bind(const Instruction& instruction) const {
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  const bool whole_batch = instruction.pass == Pass::kHeadUpdate || instruction.pass == Pass::kHeadNorms;
  BoundHead bound;
  bound.rows = whole_batch ? program_.batch : head.rows;
  bound.features = rows_at(instruction, head, head.feature, whole_batch);
  bound.labels = rows_at(instruction, head, head.label, whole_batch);
  if (head.label.valid()) {
    XRUN_CHECK(module_.graph.value(head.label).type.dtype == DType::kI32, "labels of heads are i32");
  }
  if (const Buffer* softmax = find_purpose(program_, instruction, Purpose::kHeadSoftmax)) {
    const int64_t place = whole_batch ? 0 : pass_place(head, *softmax, instruction.micro_batch);
    bound.softmax = reinterpret_cast<ops::RowSoftmax*>(memory_.at(*softmax)) + place;
  }
  if (instruction.pass == Pass::kReduceStats) {
    bind_results(instruction, head, bound);
    return bound;
  }
  const planner::HeadShard& shard = head.shards[static_cast<size_t>(instruction.shard)];
  if (shard.row_begin == shard.row_end) {
    return bound;
  }
  bound.passes = &heads_.passes(instruction.head, instruction.shard, bound.rows);
  bind_weights(head, instruction.shard, bound);
  if (const Buffer* stats = find_purpose(program_, instruction, Purpose::kHeadStats)) {
    bound.stats = memory_.at(*stats) + heads_.stats_offset(instruction.head, instruction.shard);
  }
  if (const Buffer* gradient = find_purpose(program_, instruction, Purpose::kHeadGradient)) {
    bound.gradient = memory_.at(*gradient) + heads_.gradient_offset(instruction.head, instruction.shard);
  }
  if (const Buffer* scratch = find_purpose(program_, instruction, Purpose::kHeadScratch)) {
    bound.scratch = memory_.at(*scratch);
  }
  bound.updates = instruction.pass == Pass::kHeadUpdate ||
                  (instruction.pass == Pass::kHeadBackward && !head.update_sweep && !head.frozen);
  if (const Buffer* norms = find_purpose(program_, instruction, Purpose::kNorms);
      norms != nullptr && instruction.pass == Pass::kHeadNorms) {
    const int64_t skip = blocks_of(head.classes, {shard.row_begin, shard.row_end}).begin;
    auto* const sums = reinterpret_cast<double*>(memory_.at(*norms));
    const auto at = [&](ParamId param) {
      return param.valid() ? sums + norms_.first[static_cast<size_t>(param.index)] + skip : nullptr;
    };
    bound.weight_squares = at(head.weight);
    bound.bias_squares = at(head.bias);
  }
  return bound;
}

void HeadRunner::bind_results(const Instruction& instruction, const HeadPlan& head, BoundHead& bound) const {
  const Graph& graph = module_.graph;
  const Buffer* stats = find_purpose(program_, instruction, Purpose::kHeadStats);
  XRUN_CHECK(stats != nullptr, "statistics are folded from a buffer");
  for (const planner::HeadShard& shard : head.shards) {
    const bool empty = shard.row_begin == shard.row_end;
    bound.all_stats.push_back(empty ? nullptr
                                    : memory_.at(*stats) + heads_.stats_offset(instruction.head, shard.shard));
  }
  std::map<ValueId, BestRows> lists;
  for (const planner::BufferId id : instruction.writes) {
    const Buffer& buffer = program_.buffer(id);
    if (buffer.purpose != Purpose::kResult) {
      continue;
    }
    const int64_t place = pass_place(head, buffer, instruction.micro_batch);
    if (buffer.value == head.logits) {
      const int64_t rows = buffer.micro_batch >= 0 ? head.rows : program_.batch;
      bound.best.push_back({head.top_k, reinterpret_cast<int32_t*>(memory_.at(buffer)) + place * head.top_k,
                            floats(memory_.at(buffer)) + (rows + place) * head.top_k});
      continue;
    }
    const Node& maker = graph.node(graph.value(buffer.value).producer);
    if (maker.op->metric_k == nullptr) {
      bound.loss = floats(memory_.at(buffer)) + place;
    } else if (maker.inputs.size() > 1) {
      bound.hits.push_back({maker.op->metric_k(maker.attrs), floats(memory_.at(buffer)) + place});
    } else {
      BestRows& list = lists[maker.outputs[0]];
      list.k = maker.op->metric_k(maker.attrs);
      if (buffer.value == maker.outputs[0]) {
        list.classes = reinterpret_cast<int32_t*>(memory_.at(buffer)) + place * list.k;
      } else {
        list.scores = floats(memory_.at(buffer)) + place * list.k;
      }
    }
  }
  for (const auto& [value, list] : lists) {
    bound.best.push_back(list);
  }
}

Status HeadRunner::run(const Instruction& instruction, BoundHead& bound, const StepContext& step, double grad_scale,
                       ops::Workers& workers) const {
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  const auto* labels = reinterpret_cast<const int32_t*>(bound.labels.at(step));
  if (instruction.pass == Pass::kReduceStats) {
    const ops::HeadJoin& join = heads_.join(instruction.head);
    if (labels != nullptr) {
      join.combine_stats(bound.all_stats, labels, bound.softmax, bound.loss, bound.hits);
    }
    for (const BestRows& best : bound.best) {
      join.top_k(bound.all_stats, best.k, best.classes, best.scores);
    }
    return check_loss(instruction, bound, step);
  }
  if (bound.passes == nullptr) {
    return {};
  }
  const ops::HeadRows rows{bound.features.at(step), labels, bound.softmax};
  if (bound.updates) {
    const Graph& graph = module_.graph;
    bound.update.weight =
        scalars_of(rule_of(module_.train, form_, graph, head.weight), form_, step.rate, step.step, grad_scale);
    if (head.bias.valid()) {
      bound.update.bias =
          scalars_of(rule_of(module_.train, form_, graph, head.bias), form_, step.rate, step.step, grad_scale);
    }
  }
  switch (instruction.pass) {
    case Pass::kHeadForward:
      bound.passes->forward(rows, bound.weights, bound.stats, bound.scratch, workers);
      return {};
    case Pass::kHeadBackward:
      bound.passes->backward(rows, bound.weights, bound.gradient, bound.updates ? &bound.update : nullptr,
                             bound.scratch, workers);
      return {};
    case Pass::kHeadNorms:
      bound.passes->gradient_norms(rows, bound.weights, bound.weight_squares, bound.bias_squares, bound.scratch,
                                   workers);
      return {};
    case Pass::kHeadUpdate:
      bound.passes->update(rows, bound.weights, bound.update, bound.scratch, workers);
      return {};
    default:
      XRUN_CHECK(false, "not a head pass");
      return {};
  }
}

Status HeadRunner::check_loss(const Instruction& instruction, const BoundHead& bound, const StepContext& step) const {
  if (bound.loss == nullptr || !program_.training) {
    return {};
  }
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  for (int64_t row = 0; row < bound.rows; ++row) {
    if (!std::isfinite(bound.loss[row])) {
      const Node& node = module_.graph.node(head.node);
      return Error{ErrorKind::kNonFinite, "XG0810",
                   "the loss of `" + node.path + "` is not finite, for row " + std::to_string(row) + " of head pass " +
                       std::to_string(instruction.micro_batch) + " of step " + std::to_string(step.step + 1),
                   "lower `train.lr`, warm it up for longer, or set `train.clip = norm(1)`", node.span};
    }
  }
  return {};
}

void HeadRunner::prepare(ops::Workers& workers) const {
  for (size_t h = 0; h < program_.heads.size(); ++h) {
    const HeadPlan& head = program_.heads[h];
    for (const planner::HeadShard& shard : head.shards) {
      if (shard.row_begin == shard.row_end) {
        continue;
      }
      BoundHead bound;
      bind_weights(head, shard.shard, bound);
      heads_.passes(static_cast<int>(h), shard.shard, head.rows).prepare(bound.weights, workers);
    }
  }
}

}  // namespace xrun::runtime
