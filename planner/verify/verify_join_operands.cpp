// Checks the operands of the instructions that combine the shards of heads (kReduceStats for statistics, kReduceDx and
// kSumDx for gradients of features), and of copies between the rows of a pass and the rows of the batch. For each
// instruction, the operands are derived from the head's plan and compared, one after the other, with those in the
// program.
// Tests: tests/planner/verify/verify_operands_test.cpp, tests/planner/program/dx_terms_test.cpp
#include <algorithm>

#include "planner/verify/head_operand_view.h"
#include "planner/verify/sums_of_dx.h"

namespace xrun::planner {
namespace {

class JoinOperands : HeadOperandView {
 public:
  JoinOperands(const Program& program, const Module& module) : HeadOperandView(program, module) {}

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      if (one.kind == Kind::kReduceStats) {
        XRUN_TRY(check_reduce());
      } else if (one.kind == Kind::kReduceDx) {
        XRUN_TRY(check_reduce_dx());
      } else if (one.kind == Kind::kSumDx) {
        XRUN_TRY(check_sum_dx());
      } else if (one.kind == Kind::kCopy) {
        XRUN_TRY(check_copy());
      }
    }
    return {};
  }

 private:
  Status check_reduce() {
    XRUN_TRY(check_place());
    if (one_->shard >= 0) {
      return at_fault("joins the statistics of shard {} alone", one_->shard);
    }
    const HeadPlan& plan = head();
    if (plan.label.valid()) {
      XRUN_TRY(take_rows(Role::kLabel, plan.label));
    }
    if (one_->device == *holders_of(plan).begin()) {
      XRUN_TRY(take_factors());
    }
    const auto own = std::ranges::find_if(
        plan.shards, [&](const HeadShard& one) { return one.device == one_->device && has_rows(one); });
    if (own == plan.shards.end()) {
      return at_fault("joins the statistics of a head that its device has no shard of");
    }
    XRUN_TRY(take_selection(Access::kRead, own->shard));
    XRUN_TRY(take_softmax(Access::kWrite));
    for (const HeadShard& shard : plan.shards) {
      if (has_rows(shard)) {
        XRUN_TRY(take_part(Role::kStats, Access::kRead, shard));
      }
    }
    if (one_->device == *holders_of(plan).begin()) {
      XRUN_TRY(check_results());
    }
    return end();
  }

  // Takes the operands of loss, metrics and, in inference, best classes of the logits, in the order of their values.
  Status check_results() {
    const HeadPlan& plan = head();
    std::set<ValueId> values;
    if (plan.loss.valid()) {
      values.insert(graph_.node(plan.loss).outputs[0]);
    }
    for (const NodeId metric : plan.metrics) {
      values.insert(graph_.node(metric).outputs.begin(), graph_.node(metric).outputs.end());
    }
    if (!program_.training) {
      values.insert(plan.logits);
    }
    for (const ValueId value : values) {
      const NodeId maker = graph_.value(value).producer;
      if (value == plan.logits) {
        XRUN_TRY(take_result(Role::kBestClasses, value, maker, plan.top_k * 4, false));
        XRUN_TRY(take_result(Role::kBestScores, value, maker, plan.top_k * 4, true));
        continue;
      }
      const Node& node = graph_.node(maker);
      const bool list = node.op->metric_k != nullptr && node.inputs.size() == 1;
      const Role role = node.op->metric_k == nullptr ? Role::kLoss
                        : !list                      ? Role::kHits
                        : value == node.outputs[0]   ? Role::kBestClasses
                                                     : Role::kBestScores;
      XRUN_TRY(take_result(role, value, maker, list ? node.op->metric_k(node.attrs) * 4 : 4, false));
    }
    return {};
  }

  // Takes a result operand. `second` states whether the result is in the second half of its buffer.
  Status take_result(Role role, ValueId value, NodeId maker, Bytes row, bool second) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    if (buffer->purpose != Purpose::kResult || buffer->value != value || buffer->head != one_->head ||
        (apart() ? buffer->head_pass != one_->head_pass : buffer->head_pass >= 0)) {
      return misplaced(*buffer);
    }
    return take({.role = role,
                 .access = Access::kWrite,
                 .node = maker,
                 .offset = row_in(*buffer) * row + (second ? buffer->bytes / 2 : 0),
                 .bytes = head().rows * row});
  }

  // Checks a copy. Its operands are pairs: one operand of each pair is in a buffer with the rows of the pass, the other
  // in a buffer with the rows of the batch. There is a pair for each micro-batch of the pass.
  Status check_copy() {
    if (!has_head() || !apart() || !inside(one_->head_pass, 0, program_.micro_batches_of_replica())) {
      return at_fault("copies rows of pass {} of head {}", one_->head_pass, one_->head);
    }
    while (next_is(Role::kFrom)) {
      const Buffer& from = program_.buffer(one_->operands[at_].buffer);
      const bool best = from.value.valid() && from.value == head().logits;
      for (int part = 0; part < (best ? 2 : 1); ++part) {
        for (int replica = 0; replica < program_.replicas; ++replica) {
          XRUN_TRY(check_pair(from, best, part, replica));
        }
      }
    }
    return end();
  }

  Status check_pair(const Buffer& first, bool best, int part, int replica) {
    XRUN_ASSIGN(const Buffer* from, next(Role::kFrom));
    const Bytes row = best                                     ? head().top_k * 4
                      : from->purpose == Purpose::kHeadSoftmax ? kHeadSoftmaxRow
                      : from->value.valid()                    ? type(from->value).bytes(1, norm_rows())
                                                               : 0;
    const auto wanted = [&](Role role, Access access, const Buffer& buffer) -> Operand {
      const int64_t all = replica * program_.micro_batches_of_replica() + one_->head_pass;
      return {.role = role,
              .access = access,
              .offset = program_.micro_batch_rows() * (buffer.head_pass >= 0 ? replica : all) * row +
                        part * (buffer.bytes / 2),
              .bytes = program_.micro_batch_rows() * row};
    };
    const bool fed = from->purpose == Purpose::kInput && from->ring == 0;
    if (from != &first || !(fed || (from->head == one_->head && from->head_pass == one_->head_pass))) {
      return misplaced(*from);
    }
    XRUN_TRY(take(wanted(Role::kFrom, Access::kRead, *from)));
    XRUN_ASSIGN(const Buffer* to, next(Role::kTo));
    const bool rows = to->purpose == Purpose::kGathered || to->purpose == Purpose::kResult;
    if (to->head != one_->head || to->value != from->value || (!rows && to->purpose != Purpose::kHeadSoftmax) ||
        to->head_pass != (fed ? one_->head_pass : -1) || (!fed && to->purpose != from->purpose)) {
      return misplaced(*to);
    }
    return take(wanted(Role::kTo, Access::kWrite, *to));
  }

  // Takes an operand for the rows of a micro-batch in a buffer of a stage.
  Status take_stage_rows(Role role, Access access, ValueId value, int micro_batch) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    const bool of_stage = buffer->purpose == Purpose::kActivation || buffer->purpose == Purpose::kResult;
    if (!of_stage || buffer->value != value || !holds(*buffer, micro_batch)) {
      return misplaced(*buffer);
    }
    return take(
        {.role = role,
         .access = access,
         .offset = type(value).bytes(program_.micro_batch_rows() * micro_batch - first_row(*buffer), norm_rows()),
         .bytes = type(value).bytes(program_.micro_batch_rows(), norm_rows())});
  }

  int micro_batch() const { return one_->replica * program_.micro_batches_of_replica() + one_->gather; }

  bool sums_gradients() const {
    const HeadPlan* plan = has_head() ? &head() : nullptr;
    const int pass = plan == nullptr || plan->rows == program_.batch ? 0 : one_->gather;
    return plan != nullptr && plan->feature_grad.valid() && one_->replica >= 0 && comes_from_stage(plan->feature) &&
           one_->head_pass == pass && inside(one_->gather, 0, program_.micro_batches_of_replica());
  }

  // Takes the operands for the terms of a sum. Terms on the device itself are read in place, terms from other devices
  // in the receive buffer.
  Status take_dx_terms(const DxSum& sum) {
    Bytes received = 0;
    for (const DxTerm& term : sum.terms) {
      const HeadGradientRows rows = dx_rows(program_, graph_, head(), term, sum.replica, one_->gather);
      const int first = term.shards.front();
      XRUN_ASSIGN(const Buffer* buffer, next(Role::kDx));
      const bool own = term.device == one_->device;
      if (!(own ? holds_dx_partials(*buffer) : holds_dx_terms(*buffer, one_->head, micro_batch(), one_->shard))) {
        return misplaced(*buffer);
      }
      const ShardPart& partials = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(first)];
      XRUN_TRY(take({.role = Role::kDx,
                     .access = Access::kRead,
                     .index = first,
                     .offset = own ? partials.gradient_offset + rows.begin : received,
                     .bytes = rows.bytes,
                     .step = own ? rows.step : rows.bytes}));
      received += own ? 0 : rows.bytes * rows.subtrees;
    }
    return {};
  }

  bool holds_dx_partials(const Buffer& buffer) const {
    return buffer.purpose == Purpose::kHeadGradient && buffer.head == one_->head && buffer.head_pass == one_->head_pass;
  }

  // Returns the sum that the instruction computes for its replica; null if its device computes no sum.
  const DxSum* find_sum() {
    const auto sums = sums_of_dx_.sums(program_, *one_);
    const auto found = std::ranges::find_if(sums, [this](const DxSum& sum) { return sum.replica == one_->replica; });
    return found == sums.end() || found->device != one_->device ? nullptr : &*found;
  }

  // Checks a kReduceDx, which sums the rows of a micro-batch of its replica on the device that made the features.
  Status check_reduce_dx() {
    const DxSum* sum = sums_gradients() && one_->shard < 0 ? find_sum() : nullptr;
    if (sum == nullptr) {
      return at_fault("does not match a sum of feature gradients on its device");
    }
    XRUN_TRY(take_stage_rows(Role::kFeature, Access::kRead, head().feature, micro_batch()));
    XRUN_TRY(take_dx_terms(*sum));
    XRUN_TRY(take_stage_rows(Role::kFeatureGradient, Access::kWrite, head().feature_grad, micro_batch()));
    return end();
  }

  // Checks a kSumDx, which sums the rows of a micro-batch over several shards of a node, on a device of the node.
  Status check_sum_dx() {
    const DxSum* sum = sums_gradients() && one_->shard >= 0 ? find_sum() : nullptr;
    if (sum == nullptr) {
      return at_fault("does not match a sum of neighbouring shards on its device");
    }
    XRUN_TRY(take_dx_terms(*sum));
    XRUN_ASSIGN(const Buffer* out, next(Role::kDx));
    if (!holds_dx_sums(*out, one_->head, micro_batch(), one_->shard)) {
      return misplaced(*out);
    }
    const HeadGradientRows rows = dx_rows(program_, graph_, head(), sum->result, one_->replica, one_->gather);
    XRUN_TRY(take(
        {.role = Role::kDx, .access = Access::kWrite, .index = one_->shard, .bytes = rows.bytes, .step = rows.bytes}));
    return end();
  }

  SumsOfDx sums_of_dx_;
};

}  // namespace

Status verify_join_operands(const Program& program, const Module& module) {
  return JoinOperands(program, module).run();
}

}  // namespace xrun::planner
