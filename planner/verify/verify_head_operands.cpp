// Checks the operands of the instructions that work on one shard of a head: the selection of active classes, the
// forward and backward passes, the sweeps at the end of a step, and the measurement of the softmax share. For each
// instruction, the operands that the kernel expects are derived from the head's plan and compared, one after the other,
// with those in the program.
// Tests: tests/planner/verify/verify_operands_test.cpp, tests/planner/verify/verify_selection_test.cpp
#include <algorithm>

#include "planner/verify/head_operand_view.h"

namespace xrun::planner {
namespace {

class HeadOperands : HeadOperandView {
 public:
  HeadOperands(const Program& program, const Module& module) : HeadOperandView(program, module) {
    for (const Buffer& buffer : program.buffers) {
      if (buffer.purpose == Purpose::kOptimizer || buffer.purpose == Purpose::kHeadOptimizer) {
        states_ = std::max(states_, buffer.state + 1);
      }
    }
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      if (is_head_pass(one.kind) && one.kind != Kind::kReduceStats) {
        XRUN_TRY(check_pass());
      } else if (one.kind == Kind::kHeadSelect) {
        XRUN_TRY(check_select());
      } else if (one.kind == Kind::kHeadMass) {
        XRUN_TRY(check_mass());
      }
    }
    return {};
  }

 private:
  Status check_pass() {
    XRUN_TRY(check_place());
    const ClipSpec& clip = module_.train.clip;
    const bool clipped = clip.kind == ClipSpec::kNorm && clip.heads;
    if ((is_head_sweep(one_->kind) && !head().update_sweep) || (one_->kind == Kind::kHeadNorms && !clipped)) {
      return at_fault("is a pass that its head does not have");
    }
    return check_shard_pass();
  }

  // Checks the selection of a shard's active classes. It reads the labels of all rows of the batch in the input buffer.
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

  // Checks the measurement of the softmax share of a shard's active classes, which uses the rows of the first pass.
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

  Status check_shard_pass() {
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
    } else if (one_->kind == Kind::kHeadUpdate && waits_for_sums()) {
      XRUN_ASSIGN(const Buffer* norms, next(Role::kNorms));
      XRUN_TRY(norms->purpose == Purpose::kNorms ? take_whole(Role::kNorms, Access::kRead, norms) : misplaced(*norms));
    }
    XRUN_TRY(check_scratch(shard));
    return end();
  }

  bool waits_for_sums() const {
    return module_.train.heads_wait_for_sums() && norm_layout(module_, program_.senders()).total > 0;
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
    const NormLayout layout = norm_layout(module_, program_.senders());
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
                     .offset = layout.offset(param) + blocks.begin * kSum,
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

  int states_ = 0;  // number of optimizer states
};

}  // namespace

Status verify_head_operands(const Program& program, const Module& module) {
  return HeadOperands(program, module).run();
}

}  // namespace xrun::planner
