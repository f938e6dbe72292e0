// Operands of head passes and of the copies between the rows of a pass and those of the batch.
#include <algorithm>
#include <map>

#include "planner/verify/operand_view.h"

namespace xrun::planner {
namespace {

class HeadOperands : OperandView {
 public:
  HeadOperands(const Program& program, const Module& module) : OperandView(program, module) {
    for (const HeadPlan& head : program.heads) {
      parts_.push_back(shard_parts(program, graph_, head));
    }
    for (const Buffer& buffer : program.buffers) {
      if (buffer.purpose == Purpose::kOptimizer || buffer.purpose == Purpose::kHeadOptimizer) {
        states_ = std::max(states_, buffer.state + 1);
      }
    }
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      if (is_head_pass(one.kind)) {
        XRUN_TRY(check_pass());
      } else if (one.kind == Kind::kHeadSelect) {
        XRUN_TRY(check_select());
      } else if (one.kind == Kind::kHeadMass) {
        XRUN_TRY(check_mass());
      } else if (one.kind == Kind::kReduceDx) {
        XRUN_TRY(check_reduce_dx());
      } else if (one.kind == Kind::kCopy) {
        XRUN_TRY(check_copy());
      }
    }
    return {};
  }

 private:
  bool one_pass() const { return head().rows == program_.batch; }
  // The rows of a pass lie apart in the batch, so that passes have buffers of their own.
  bool apart() const { return program_.replicas > 1 && !one_pass(); }
  int64_t rows() const { return is_head_sweep(one_->kind) ? program_.batch : head().rows; }

  // Whether a buffer of the head has the rows of the instruction: those of its pass, or all in which they are one run.
  bool has_its_rows(const Buffer& buffer) const {
    if (is_head_sweep(one_->kind)) {
      return buffer.head_pass < 0;
    }
    return buffer.head_pass < 0 ? !apart() : buffer.head_pass == one_->head_pass;
  }

  // The row that those of the instruction begin at in such a buffer.
  int64_t row_in(const Buffer& buffer) const {
    return buffer.head_pass >= 0 || is_head_sweep(one_->kind) ? 0 : head().rows * one_->head_pass;
  }

  Status check_pass() {
    const bool sweep = is_head_sweep(one_->kind);
    if (!has_head() || one_->stage >= 0 || (sweep ? one_->head_pass >= 0 : one_->head_pass < 0)) {
      return at_fault("is a pass of no head");
    }
    const ClipSpec& clip = module_.train.clip;
    const bool clipped = clip.kind == ClipSpec::kNorm && clip.heads;
    if ((sweep && !head().update_sweep) || (one_->kind == Kind::kHeadNorms && !clipped)) {
      return at_fault("is a pass that its head does not have");
    }
    return one_->kind == Kind::kReduceStats ? check_reduce() : check_shard_pass(clipped);
  }

  Status take_rows(Role role, ValueId value) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    const bool input = buffer->purpose == Purpose::kInput && buffer->ring == 0;
    const bool gathered = buffer->purpose == Purpose::kGathered && buffer->head == one_->head;
    if (buffer->value != value || !(input || gathered) || !has_its_rows(*buffer)) {
      return misplaced(*buffer);
    }
    return take({.role = role,
                 .access = Access::kRead,
                 .offset = type(value).bytes(row_in(*buffer), norm_rows()),
                 .bytes = type(value).bytes(rows(), norm_rows())});
  }

  Status take_factors() {
    return head().row_factor.valid() ? take_rows(Role::kRowFactor, head().row_factor) : Status();
  }

  Status take_softmax(Access access) {
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kSoftmax));
    if (buffer->purpose != Purpose::kHeadSoftmax || buffer->head != one_->head || !has_its_rows(*buffer)) {
      return misplaced(*buffer);
    }
    return take({.role = Role::kSoftmax,
                 .access = access,
                 .offset = row_in(*buffer) * kHeadSoftmaxRow,
                 .bytes = rows() * kHeadSoftmaxRow});
  }

  // A shard's part of statistics or of dX partials.
  Status take_part(Role role, Access access, const HeadShard& shard) {
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    const bool stats = role == Role::kStats;
    if (buffer->purpose != (stats ? Purpose::kHeadStats : Purpose::kHeadGradient) || buffer->head != one_->head ||
        buffer->head_pass != one_->head_pass) {
      return misplaced(*buffer);
    }
    const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(shard.shard)];
    return take({.role = role,
                 .access = access,
                 .index = shard.shard,
                 .offset = stats ? part.stats_offset : part.gradient_offset,
                 .bytes = stats ? part.stats : part.gradient});
  }

  // What a shard selects by: the labels of all rows of the batch, as the data gives them.
  Status check_select() {
    if (!has_head() || head().active == 0 || one_->stage >= 0 || one_->head_pass >= 0 ||
        !inside(one_->shard, 0, count(head().shards))) {
      return at_fault("selects classes of no head");
    }
    XRUN_ASSIGN(const Buffer* labels, next(Role::kLabel));
    if (labels->purpose != Purpose::kInput || labels->ring != 0 || labels->value != head().label) {
      return misplaced(*labels);
    }
    XRUN_TRY(take_whole(Role::kLabel, Access::kRead, labels));
    if (head().neighbours > 0) {
      XRUN_ASSIGN(const Buffer* lists, next(Role::kLists));
      const bool own = lists->purpose == Purpose::kHeadLists && lists->head == one_->head;
      XRUN_TRY(own ? take_whole(Role::kLists, Access::kRead, lists) : misplaced(*lists));
    }
    XRUN_TRY(take_selection(Access::kUpdate, one_->shard));
    return end();
  }

  // What is measured of a shard: the rows of the first pass.
  Status check_mass() {
    if (!has_head() || head().active == 0 || one_->stage >= 0 || one_->head_pass != 0 ||
        !inside(one_->shard, 0, count(head().shards))) {
      return at_fault("measures no head");
    }
    const HeadShard& shard = head().shards[static_cast<size_t>(one_->shard)];
    if (shard.device != one_->device || !has_rows(shard)) {
      return at_fault("measures a shard that is elsewhere");
    }
    XRUN_TRY(take_rows(Role::kFeature, head().feature));
    XRUN_TRY(take_rows(Role::kLabel, head().label));
    XRUN_TRY(take_selection(Access::kRead, one_->shard));
    XRUN_ASSIGN(const Buffer* mass, next(Role::kMass));
    if (mass->purpose != Purpose::kHeadMass || mass->head != one_->head || mass->shard != one_->shard) {
      return misplaced(*mass);
    }
    XRUN_TRY(take_whole(Role::kMass, Access::kWrite, mass));
    XRUN_TRY(check_weights(shard, false));
    XRUN_TRY(take_scratch(head_mass_scratch_bytes(head_shape(program_, graph_, head(), shard, rows()))));
    return end();
  }

  Status take_selection(Access access, int shard) {
    if (head().active == 0) {
      return {};
    }
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kSelection));
    if (buffer->purpose != Purpose::kHeadSelection || buffer->head != one_->head || buffer->shard != shard) {
      return misplaced(*buffer);
    }
    return take_whole(Role::kSelection, access, buffer);
  }

  Status take_logits(Access access, const HeadShard& shard) {
    if (shard.kept_blocks == 0) {
      return {};
    }
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kLogits));
    if (buffer->purpose != Purpose::kHeadLogits || buffer->head != one_->head || buffer->shard != shard.shard ||
        buffer->head_pass != one_->head_pass) {
      return misplaced(*buffer);
    }
    return take_whole(Role::kLogits, access, buffer);
  }

  // The rows of a micro-batch of a stage, in a buffer of the stage.
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

  // Sums the rows of its replica's micro-batch: of the device's own shards where they are, of others where they came.
  Status check_reduce_dx() {
    const HeadPlan* plan = has_head() ? &head() : nullptr;
    const int pass = plan == nullptr || plan->rows == program_.batch ? 0 : one_->gather;
    if (plan == nullptr || !plan->feature_grad.valid() || !on_its_device() || one_->head_pass != pass ||
        !inside(one_->gather, 0, program_.micro_batches_of_replica())) {
      return at_fault("sums the gradient of no feature");
    }
    const int micro_batch = one_->replica * program_.micro_batches_of_replica() + one_->gather;
    const int64_t first = program_.micro_batch_rows() * (one_pass() ? micro_batch : one_->replica);
    XRUN_TRY(take_stage_rows(Role::kFeature, Access::kRead, plan->feature, micro_batch));
    Bytes received = 0;
    for (const HeadShard& shard : plan->shards) {
      if (!has_rows(shard)) {
        continue;
      }
      const HeadGradientRows rows = head_gradient_rows(head_shape(program_, graph_, *plan, shard, plan->rows), first,
                                                       first + program_.micro_batch_rows());
      XRUN_ASSIGN(const Buffer* buffer, next(Role::kDx));
      const bool own = shard.device == one_->device;
      const bool partials = buffer->purpose == Purpose::kHeadGradient && buffer->head == one_->head &&
                            buffer->head_pass == one_->head_pass;
      if (!(own ? partials : holds_dx_terms(*buffer, one_->head, micro_batch))) {
        return misplaced(*buffer);
      }
      const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(shard.shard)];
      XRUN_TRY(take({.role = Role::kDx,
                     .access = Access::kRead,
                     .index = shard.shard,
                     .offset = own ? part.gradient_offset + rows.begin : received,
                     .bytes = rows.bytes,
                     .step = own ? rows.step : rows.bytes}));
      received += own ? 0 : rows.bytes * rows.subtrees;
    }
    XRUN_TRY(take_stage_rows(Role::kFeatureGradient, Access::kWrite, plan->feature_grad, micro_batch));
    return end();
  }

  Status check_shard_pass(bool clipped) {
    const HeadPlan& plan = head();
    const HeadShard& shard = plan.shards[static_cast<size_t>(one_->shard)];
    XRUN_TRY(take_rows(Role::kFeature, plan.feature));
    if (plan.label.valid()) {
      XRUN_TRY(take_rows(Role::kLabel, plan.label));
    }
    if (one_->kind != Kind::kHeadForward) {
      XRUN_TRY(take_factors());
    }
    XRUN_TRY(take_selection(Access::kRead, one_->shard));
    if (one_->kind == Kind::kHeadForward) {
      XRUN_TRY(take_part(Role::kStats, Access::kWrite, shard));
      XRUN_TRY(take_logits(Access::kWrite, shard));
    } else {
      XRUN_TRY(take_softmax(Access::kRead));
    }
    if (one_->kind == Kind::kHeadBackward) {
      XRUN_TRY(take_part(Role::kDx, Access::kWrite, shard));
      XRUN_TRY(take_logits(Access::kRead, shard));
    }
    const bool fused = one_->kind == Kind::kHeadBackward && !plan.update_sweep && !plan.frozen;
    XRUN_TRY(check_weights(shard, fused || one_->kind == Kind::kHeadUpdate));
    if (one_->kind == Kind::kHeadNorms) {
      XRUN_TRY(check_norms(shard));
    } else if (one_->kind == Kind::kHeadUpdate && clipped) {
      XRUN_ASSIGN(const Buffer* norms, next(Role::kNorms));
      XRUN_TRY(norms->purpose == Purpose::kNorms ? take_whole(Role::kNorms, Access::kRead, norms) : misplaced(*norms));
    }
    XRUN_TRY(check_scratch(shard));
    return end();
  }

  Status check_weights(const HeadShard& shard, bool update) {
    const HeadPlan& plan = head();
    const Access access = update ? Access::kUpdate : Access::kRead;
    for (const ParamId param : {plan.weight, plan.bias}) {
      if (param.valid()) {
        XRUN_TRY(
            take_whole(Role::kWeight, access, params_.find_shard(param, Purpose::kHeadWeight, shard.shard), param));
      }
    }
    const bool exact = catches_up(plan) && !plan.frozen;
    for (const ParamId param : {plan.weight, plan.bias}) {
      for (int state = 0; (update || exact) && param.valid() && state < states_; ++state) {
        XRUN_TRY(take_whole(Role::kState, access,
                            params_.find_shard(param, Purpose::kHeadOptimizer, shard.shard, state), param, state));
      }
    }
    if (exact) {
      XRUN_TRY(take_whole(Role::kLast, access, params_.find_shard(plan.weight, Purpose::kHeadLast, shard.shard),
                          plan.weight));
    }
    if (has_scales(plan)) {
      XRUN_TRY(take_whole(Role::kScales, access, params_.find_shard(plan.weight, Purpose::kHeadScale, shard.shard),
                          plan.weight));
    }
    if (head_prepared_bytes(head_shape(program_, graph_, plan, shard, plan.rows)) == 0) {
      return {};
    }
    return take_whole(Role::kPrepared, access, params_.find_shard(plan.weight, Purpose::kHeadPrepared, shard.shard),
                      plan.weight);
  }

  Status check_norms(const HeadShard& shard) {
    const NormLayout layout = norm_layout(module_);
    const BlockRange blocks = head().blocks().of_rows({shard.row_begin, shard.row_end});
    for (const ParamId param : {head().weight, head().bias}) {
      if (!param.valid()) {
        continue;
      }
      XRUN_ASSIGN(const Buffer* buffer, next(Role::kNorms));
      if (buffer->purpose != Purpose::kNorms) {
        return misplaced(*buffer);
      }
      constexpr auto kSum = static_cast<Bytes>(sizeof(double));
      XRUN_TRY(take({.role = Role::kNorms,
                     .access = Access::kWrite,
                     .param = param,
                     .offset = (layout.first[static_cast<size_t>(param.index)] + blocks.begin) * kSum,
                     .bytes = blocks.size() * kSum}));
    }
    return {};
  }

  Status check_scratch(const HeadShard& shard) {
    const HeadPass pass = one_->kind == Kind::kHeadForward    ? HeadPass::kForward
                          : one_->kind == Kind::kHeadBackward ? HeadPass::kBackward
                                                              : HeadPass::kUpdate;
    return take_scratch(head_scratch_bytes(head_shape(program_, graph_, head(), shard, rows()), pass));
  }

  Status take_scratch(Bytes bytes) {
    if (bytes == 0) {
      return {};
    }
    XRUN_ASSIGN(const Buffer* scratch, next(Role::kScratch));
    if (scratch->purpose != Purpose::kHeadScratch) {
      return misplaced(*scratch);
    }
    if (scratch->bytes < bytes) {
      return at_fault("has {} of {} bytes of scratch for a head pass", scratch->bytes, bytes);
    }
    return take_whole(Role::kScratch, Access::kWrite, scratch);
  }

  Status check_reduce() {
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

  // Loss, metrics and, in inference, the best classes of the logits, in the order of their values.
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

  // `second`: in the second half of the buffer.
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

  // Pairs: each of a buffer with the rows of the pass and one with those of the batch, micro-batch by micro-batch.
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

  std::vector<std::vector<ShardPart>> parts_;  // by head, by shard
  int states_ = 0;                             // of the optimizer
};

}  // namespace

Status verify_head_operands(const Program& program, const Module& module) {
  return HeadOperands(program, module).run();
}

}  // namespace xrun::planner
