// Binds the operands of head instructions: stores their addresses in the members of BoundHead.
// Tests: tests/runtime/device/cpu/kernels_test.cpp, tests/runtime/runs/determinism_test.cpp
#include <string>

#include "graph/base/check.h"
#include "runtime/device/cpu/head_runner.h"

namespace xrun::runtime {

using planner::HeadPlan;
using planner::Instruction;
using planner::Kind;
using planner::Operand;
using planner::Role;

namespace {

// Binds an operand that belongs to the class rows of the shard; returns false if its role is another one. `bias`:
// whether the operand's parameter is the bias of the head.
bool bind_class_rows(const Binder& binder, const Operand& operand, bool bias, BoundHead& bound) {
  const auto index = static_cast<size_t>(operand.index);
  switch (operand.role) {
    case Role::kWeight:
      if (bias) {
        bound.weights.bias = binder.at<float>(operand);
      } else {
        bound.weights.weight = binder.at(operand);
      }
      bound.updates = operand.access == planner::Access::kUpdate;
      return true;
    case Role::kState:
      if (bias) {
        bound.update.bias_states[index] = binder.at<float>(operand);
      } else {
        bound.update.weight_states[index] = binder.at(operand);
      }
      return true;
    case Role::kLast:
      bound.weights.catch_up.last = binder.at<int32_t>(operand);
      return true;
    case Role::kScales:
      bound.weights.scales = binder.at<float>(operand);
      return true;
    case Role::kPrepared:
      bound.weights.prepared = binder.at<float>(operand);
      return true;
    case Role::kNorms:
      if (operand.param.valid()) {
        (bias ? bound.bias_squares : bound.weight_squares) = binder.at<double>(operand);
      }
      return true;
    default:
      return false;
  }
}

// Binds an operand with which the passes of a shard pass results to one another, or to the instruction that combines
// all shards. Returns false if the role of the operand is another one.
bool bind_between_passes(const Binder& binder, const Operand& operand, BoundHead& bound) {
  switch (operand.role) {
    case Role::kStats:
      bound.all_stats[static_cast<size_t>(operand.index)] = bound.stats = binder.at(operand);
      return true;
    case Role::kLogits:
      bound.logits = binder.at(operand);
      return true;
    case Role::kSelection:
      bound.selection = binder.at(operand);
      return true;
    case Role::kMass:
      bound.mass = binder.at<ops::RowMass>(operand);
      return true;
    case Role::kLists:
      bound.lists = binder.at<int32_t>(operand);
      return true;
    case Role::kDx:
      if (operand.access == planner::Access::kRead) {
        bound.terms.push_back({binder.at(operand), operand.step});
      } else {
        bound.gradient = binder.at(operand);
        bound.gradient_step = operand.step;
      }
      return true;
    case Role::kScratch:
      bound.scratch = binder.at(operand);
      return true;
    default:
      return false;
  }
}

}  // namespace

BoundHead HeadRunner::bind(const Instruction& instruction) const {
  const HeadPlan& head = program_.heads[static_cast<size_t>(instruction.head)];
  BoundHead bound;
  bound.instruction = &instruction;
  bound.kind = instruction.kind;
  bound.head = instruction.head;
  bound.head_pass = instruction.head_pass;
  bound.shard = instruction.shard;
  const bool of_step = is_head_sweep(instruction.kind) || instruction.kind == Kind::kHeadSelect;
  const bool sums_dx = instruction.kind == Kind::kReduceDx || instruction.kind == Kind::kSumDx;
  bound.rows = of_step ? program_.batch : sums_dx ? program_.micro_batch_rows() : head.rows;
  bound.update.form = form_;
  bound.all_stats.resize(head.shards.size());
  if (instruction.shard >= 0 && !sums_dx) {
    bound.passes = &heads_.passes(instruction.head, instruction.shard, bound.rows);
  }
  for (const Operand& operand : instruction.operands) {
    bind_operand(operand, bound);
  }
  if (sums_dx) {
    bound.join_of_dx = &heads_.join_of_dx(instruction.id);
  }
  return bound;
}

void HeadRunner::bind_operand(const Operand& operand, BoundHead& bound) const {
  const bool bias = operand.param == program_.heads[static_cast<size_t>(bound.head)].bias;
  if (!bind_class_rows(binder_, operand, bias, bound) && !bind_between_passes(binder_, operand, bound)) {
    bind_batch_rows(operand, bound);
  }
}

// Binds an operand that has an element or a list for each row of the batch.
void HeadRunner::bind_batch_rows(const Operand& operand, BoundHead& bound) const {
  switch (operand.role) {
    case Role::kFeature:
      bound.features = binder_.address(operand);
      break;
    case Role::kLabel:
      XRUN_CHECK(module_.graph.value(program_.buffer(operand.buffer).value).type.dtype == DType::kI32,
                 "labels of heads are i32");
      bound.labels = binder_.address(operand);
      break;
    case Role::kRowFactor:
      bound.factors = binder_.address(operand);
      break;
    case Role::kSoftmax:
      bound.softmax = binder_.at<ops::RowSoftmax>(operand);
      break;
    case Role::kFeatureGradient:
      bound.feature_gradient = binder_.at<float>(operand);
      break;
    case Role::kLoss:
      bound.loss = binder_.at<float>(operand);
      break;
    case Role::kHits: {
      const Node& metric = module_.graph.node(operand.node);
      bound.hits.push_back({metric.op->metric_k(metric.attrs), binder_.at<float>(operand)});
      break;
    }
    case Role::kBestClasses:
      bound.best[operand.node].k = operand.bytes / bound.rows / static_cast<Bytes>(sizeof(int32_t));
      bound.best[operand.node].classes = binder_.at<int32_t>(operand);
      break;
    case Role::kBestScores:
      bound.best[operand.node].scores = binder_.at<float>(operand);
      break;
    default:
      XRUN_CHECK(false, std::string("a head pass has no use for ") + name_of(operand.role));
  }
}

}  // namespace xrun::runtime
