// The rules for the instructions of heads that work on a shard or combine the statistics of shards.
// Tests: tests/planner/verify/symbolic_run_test.cpp
#include <algorithm>

#include "planner/verify/symbolic_run.h"

namespace xrun::planner {
namespace {

bool has_rows(const HeadShard& shard) { return shard.row_begin < shard.row_end; }

}  // namespace

// Returns the ranges that the rows of a pass have in a tensor with `row` bytes for each row of the batch. `pass` -1:
// all rows of the batch.
std::vector<SymbolicState::Segment> SymbolicRun::segments(const HeadPlan& head, int pass, Bytes row) const {
  if (pass < 0 || head.rows == program_.batch) {
    return {{0, program_.batch * row}};
  }
  std::vector<Segment> all;
  for (int replica = 0; replica < program_.replicas; ++replica) {
    const int64_t m = int64_t{replica} * program_.micro_batches_of_replica() + pass;
    all.push_back({program_.micro_batch_rows() * m * row, program_.micro_batch_rows() * row});
  }
  return all;
}

Status SymbolicRun::take_rows(Role role, ValueId value) {
  XRUN_TRY(take({.role = role, .access = Access::kRead}, value_of(value),
                segments(head(), one_->head_pass, bytes_of(value, 1))));
  const Buffer& buffer = program_.buffer(one_->operands[at_ - 1].buffer);
  return buffer.value == value ? Status()
                               : at_fault("has the rows of `{}` in buffer {} ({}), which is for another value",
                                          graph_.value(value).name, buffer.id.index, buffer.name);
}

Status SymbolicRun::take_softmax(Access access) {
  return take({.role = Role::kSoftmax, .access = access}, {.what = What::kSoftmax, .id = one_->head},
              segments(head(), one_->head_pass, kHeadSoftmaxRow));
}

Status SymbolicRun::take_selection(Access access, int number) {
  if (head().active == 0) {
    return {};
  }
  return take_kept({.role = Role::kSelection, .access = access}, {.what = What::kKept,
                                                                  .purpose = Purpose::kHeadSelection,
                                                                  .fresh = access == Access::kRead,
                                                                  .id = one_->head,
                                                                  .first = number});
}

// Takes the sums of squares of all gradients, which a clip or a scale of the loss reads.
Status SymbolicRun::take_all_norms() {
  return take({.role = Role::kNorms, .access = Access::kRead}, {.what = What::kNorms}, Segment{0, norms_.bytes()});
}

Status SymbolicRun::select() {
  XRUN_TRY(check_shard());
  if (head().active == 0 || one_->head_pass >= 0) {
    return at_fault("selects classes of a head that uses all of them");
  }
  XRUN_TRY(take_rows(Role::kLabel, head().label));
  if (head().neighbours > 0) {
    XRUN_TRY(take_kept({.role = Role::kLists, .access = Access::kRead},
                       {.what = What::kKept, .purpose = Purpose::kHeadLists, .id = one_->head}));
  }
  XRUN_TRY(take_selection(Access::kUpdate, one_->shard));
  return end();
}

// Takes the class rows of a shard: weights, the states that the pass uses, and the data that belong to them.
Status SymbolicRun::take_class_rows(const HeadShard& shard, bool update, bool fresh) {
  const HeadPlan& plan = head();
  const Access access = update ? Access::kUpdate : Access::kRead;
  const auto take_one = [&](Role role, Purpose purpose, ParamId param, int state = -1) {
    return take_kept({.role = role, .access = access, .param = param, .index = state}, {.what = What::kKept,
                                                                                        .purpose = purpose,
                                                                                        .fresh = fresh,
                                                                                        .id = param.index,
                                                                                        .first = shard.shard,
                                                                                        .last = state});
  };
  for (const ParamId param : {plan.weight, plan.bias}) {
    if (param.valid()) {
      XRUN_TRY(take_one(Role::kWeight, Purpose::kHeadWeight, param));
    }
  }
  const bool exact = catches_up(plan) && updates(plan);
  for (const ParamId param : {plan.weight, plan.bias}) {
    for (int state = 0; (update || exact) && param.valid() && state < states_; ++state) {
      XRUN_TRY(take_one(Role::kState, Purpose::kHeadOptimizer, param, state));
    }
  }
  if (exact) {
    XRUN_TRY(take_one(Role::kLast, Purpose::kHeadLast, plan.weight));
  }
  if (has_scales(plan)) {
    XRUN_TRY(take_one(Role::kScales, Purpose::kHeadScale, plan.weight));
  }
  const bool prepared = head_prepared_bytes(head_shape(program_, graph_, plan, shard, plan.rows)) > 0;
  return prepared ? take_one(Role::kPrepared, Purpose::kHeadPrepared, plan.weight) : Status();
}

// Checks that the instruction works on a shard of its device that has class rows.
Status SymbolicRun::check_shard() const {
  const bool exists = one_->head >= 0 && inside(one_->shard, 0, count(head().shards));
  return exists && shard().device == one_->device && has_rows(shard()) ? Status()
                                                                       : at_fault("works on no shard of its device");
}

Status SymbolicRun::shard_pass() {
  XRUN_TRY(check_shard());
  const HeadPlan& plan = head();
  const HeadShard& mine = shard();
  const bool sweep = is_head_sweep(one_->kind);
  const bool forward = one_->kind == Kind::kHeadForward;
  const bool backward = one_->kind == Kind::kHeadBackward;
  if (sweep != (one_->head_pass < 0) || (sweep && !plan.update_sweep)) {
    return at_fault("is a pass that its head does not have");
  }
  XRUN_TRY(take_rows(Role::kFeature, plan.feature));
  if (plan.label.valid()) {
    XRUN_TRY(take_rows(Role::kLabel, plan.label));
  }
  if (!forward && plan.row_factor.valid()) {
    XRUN_TRY(take_rows(Role::kRowFactor, plan.row_factor));
  }
  XRUN_TRY(take_selection(Access::kRead, one_->shard));
  const Content logits{.what = What::kLogits, .id = one_->head, .first = mine.shard, .pass = one_->head_pass};
  const Segment kept{
      0, mine.kept_blocks == 0 ? 0 : head_logits_bytes(head_shape(program_, graph_, plan, mine, plan.rows))};
  const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(mine.shard)];
  if (forward) {
    XRUN_TRY(take({.role = Role::kStats, .access = Access::kWrite, .index = mine.shard},
                  {.what = What::kStatistics, .id = one_->head, .pass = one_->head_pass},
                  Segment{part.stats_offset, part.stats}));
  } else {
    XRUN_TRY(take_softmax(Access::kRead));
  }
  if (backward) {
    XRUN_TRY(take({.role = Role::kDx, .access = Access::kWrite, .index = mine.shard},
                  {.what = What::kDx, .id = one_->head, .first = mine.shard, .pass = one_->head_pass},
                  Segment{0, part.gradient}));
  }
  if ((forward || backward) && kept.bytes > 0) {
    XRUN_TRY(take({.role = Role::kLogits, .access = forward ? Access::kWrite : Access::kRead}, logits, kept));
  }
  const bool fused = backward && !plan.update_sweep && !plan.frozen;
  XRUN_TRY(take_class_rows(mine, fused || one_->kind == Kind::kHeadUpdate, false));
  if (one_->kind == Kind::kHeadNorms) {
    XRUN_TRY(take_head_norms(mine));
  } else if (one_->kind == Kind::kHeadUpdate && module_.train.heads_wait_for_sums() && norms_.total > 0) {
    XRUN_TRY(take_all_norms());
  }
  const HeadPass pass = forward ? HeadPass::kForward : backward ? HeadPass::kBackward : HeadPass::kUpdate;
  const HeadShape shape = head_shape(program_, graph_, plan, mine, sweep ? program_.batch : plan.rows);
  if (const Bytes scratch = head_scratch_bytes(shape, pass); scratch > 0) {
    XRUN_TRY(take_scratch(scratch, false));
  }
  return end();
}

// Takes the sums of squares of a shard's gradients: one for each of its class blocks.
Status SymbolicRun::take_head_norms(const HeadShard& shard) {
  constexpr auto kSum = static_cast<Bytes>(sizeof(double));
  const BlockRange blocks = head().blocks().of_rows({shard.row_begin, shard.row_end});
  for (const ParamId param : {head().weight, head().bias}) {
    if (!param.valid()) {
      continue;
    }
    if (!norms_.has(param)) {
      return at_fault("counts the gradient of `{}`, which no clip counts", graph_.param(param).name);
    }
    XRUN_TRY(take({.role = Role::kNorms, .access = Access::kWrite, .param = param}, {.what = What::kNorms},
                  Segment{norms_.offset(param) + blocks.begin * kSum, blocks.size() * kSum}));
  }
  return {};
}

// Runs the measurement of the softmax mass of the active classes, for the rows of the first pass, after the update.
Status SymbolicRun::measure_mass() {
  XRUN_TRY(check_shard());
  if (head().active == 0 || one_->head_pass != 0) {
    return at_fault("measures no head");
  }
  XRUN_TRY(take_rows(Role::kFeature, head().feature));
  XRUN_TRY(take_rows(Role::kLabel, head().label));
  XRUN_TRY(take_selection(Access::kRead, one_->shard));
  XRUN_TRY(take_kept({.role = Role::kMass, .access = Access::kWrite},
                     {.what = What::kKept, .purpose = Purpose::kHeadMass, .id = one_->head, .first = one_->shard}));
  XRUN_TRY(take_class_rows(shard(), false, updates(head())));
  const HeadShape shape = head_shape(program_, graph_, head(), shard(), head().rows);
  if (const Bytes scratch = head_mass_scratch_bytes(shape); scratch > 0) {
    XRUN_TRY(take_scratch(scratch, false));
  }
  return end();
}

// Runs the combination of the statistics of all shards. One device of the head also computes losses and metrics.
Status SymbolicRun::reduce_statistics() {
  if (one_->head < 0 || one_->head_pass < 0) {
    return at_fault("is a pass of no head");
  }
  const HeadPlan& plan = head();
  const auto own = std::ranges::find_if(
      plan.shards, [&](const HeadShard& each) { return each.device == one_->device && has_rows(each); });
  if (one_->shard >= 0 || own == plan.shards.end()) {
    return at_fault("combines the statistics of no head of its device");
  }
  if (plan.label.valid()) {
    XRUN_TRY(take_rows(Role::kLabel, plan.label));
  }
  const bool factors = next_is(Role::kRowFactor) && plan.row_factor.valid();
  if (factors) {
    XRUN_TRY(take_rows(Role::kRowFactor, plan.row_factor));
  }
  XRUN_TRY(take_selection(Access::kRead, own->shard));
  XRUN_TRY(take_softmax(Access::kWrite));
  for (const HeadShard& each : plan.shards) {
    const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(each.shard)];
    if (has_rows(each)) {
      XRUN_TRY(take({.role = Role::kStats, .access = Access::kRead, .index = each.shard},
                    {.what = What::kStatistics, .id = one_->head, .pass = one_->head_pass},
                    Segment{part.stats_offset, part.stats}));
    }
  }
  if (const Bytes scratch = stats_scratch_bytes(program_, graph_, plan); scratch > 0) {
    XRUN_TRY(take_scratch(scratch, false));
  }
  if (at_ == one_->operands.size()) {
    return end();
  }
  if (plan.row_factor.valid() && !factors) {
    return at_fault("computes losses without the factors of their rows");
  }
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
    XRUN_TRY(take_result(value));
  }
  return end();
}

Status SymbolicRun::take_result(ValueId value) {
  const NodeId maker = graph_.value(value).producer;
  if (value == head().logits) {
    for (const int part : {0, 1}) {
      XRUN_TRY(
          take({.role = part == 0 ? Role::kBestClasses : Role::kBestScores, .access = Access::kWrite, .node = maker},
               {.what = What::kBest, .id = value.index, .first = part},
               segments(head(), one_->head_pass, head().top_k * 4)));
    }
    return {};
  }
  const Node& node = graph_.node(maker);
  const bool list = node.op->metric_k != nullptr && node.inputs.size() == 1;
  const Role role = node.op->metric_k == nullptr ? Role::kLoss
                    : !list                      ? Role::kHits
                    : value == node.outputs[0]   ? Role::kBestClasses
                                                 : Role::kBestScores;
  return take({.role = role, .access = Access::kWrite, .node = maker}, value_of(value),
              segments(head(), one_->head_pass, list ? node.op->metric_k(node.attrs) * 4 : 4));
}

}  // namespace xrun::planner
