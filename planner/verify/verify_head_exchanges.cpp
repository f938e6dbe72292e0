// Checks the operands of the exchanges of heads. There are three kinds: rows of every replica (features and labels) are
// sent to the devices of the shards; each shard sends its statistics to the devices of all others; dX partials are sent
// back to the stage that makes the features, or first to a device of the same node that sums them. For each exchange,
// the check derives the members and their blocks from the stages and shards and compares them with the operands.
// Tests: tests/planner/verify/verify_operands_test.cpp, tests/planner/program/dx_terms_test.cpp
#include <algorithm>

#include "planner/verify/exchange_view.h"
#include "planner/verify/sums_of_dx.h"

namespace xrun::planner {
namespace {

class HeadExchanges : ExchangeView {
 public:
  HeadExchanges(const Program& program, const Module& module) : ExchangeView(program, module) {
    for (const HeadPlan& head : program.heads) {
      parts_.push_back(shard_parts(program, graph_, head));
      holders_.push_back(holders_of(head));
    }
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      XRUN_TRY(check());
    }
    return Status();
  }

 private:
  Status check() {
    switch (exchange()) {
      case Exchange::kHeadRows:
        return check_gather();
      case Exchange::kHeadStatistics:
        return check_statistics();
      case Exchange::kHeadGradients:
        return check_gradients();
      default:
        return {};
    }
  }

  // Checks an exchange that sends the features or labels of a micro-batch of every replica to the devices of the
  // shards.
  Status check_gather() {
    if (!has_head() || one_->stage < 0 || !inside(one_->gather, 0, program_.micro_batches_of_replica())) {
      return at_fault("gathers micro-batch {} of head {}", one_->gather, one_->head);
    }
    const HeadPlan& plan = head();
    const Stage& stage = program_.stages[static_cast<size_t>(one_->stage)];
    const std::set<int>& holders = holders_[static_cast<size_t>(one_->head)];
    std::set<int> wanted = devices_of_stage();
    wanted.insert(holders.begin(), holders.end());
    XRUN_TRY(check_members(wanted));
    if (one_->operands.empty()) {
      return at_fault("gathers nothing");
    }
    const ValueId value = program_.buffer(one_->operands[0].buffer).value;
    if (!value.valid() || (value != plan.feature && value != plan.label) || !comes_from_stage(value)) {
      return misplaced(program_.buffer(one_->operands[0].buffer));
    }
    if (value_of_.try_emplace(one_->group, value).first->second != value) {
      return at_fault("carries other rows than its exchange");
    }
    for (int replica = 0; replica < program_.replicas; ++replica) {
      for (const int holder : holders) {
        if (stage.devices[static_cast<size_t>(replica)] == one_->device) {
          XRUN_TRY(take_micro_batch({.role = Role::kSent, .access = Access::kRead, .index = holder}, value,
                                    micro_batch(replica)));
        }
      }
    }
    for (int replica = 0; holders.contains(one_->device) && replica < program_.replicas; ++replica) {
      XRUN_ASSIGN(const Buffer* all, next(Role::kReceived));
      const bool one_pass = plan.rows == program_.batch;
      const int pass = one_pass ? 0 : one_->gather;
      if (all->purpose != Purpose::kGathered || all->head != one_->head || all->value != value ||
          (all->head_pass >= 0 ? all->head_pass != pass : program_.replicas > 1 && !one_pass)) {
        return misplaced(*all);
      }
      const int place = all->head_pass >= 0 && !one_pass ? replica : micro_batch(replica);
      XRUN_TRY(take_block(Role::kReceived, stage.devices[static_cast<size_t>(replica)],
                          type(value).bytes(program_.micro_batch_rows() * place, norm_rows()),
                          type(value).bytes(program_.micro_batch_rows(), norm_rows())));
    }
    return end();
  }

  int micro_batch(int replica) const { return replica * program_.micro_batches_of_replica() + one_->gather; }

  // Checks an exchange, in place, that sends the statistics of each shard to the devices of all other shards.
  Status check_statistics() {
    if (!has_head()) {
      return at_fault("is of no head");
    }
    const HeadPlan& plan = head();
    const std::set<int>& holders = holders_[static_cast<size_t>(one_->head)];
    XRUN_TRY(check_members(holders));
    for (const HeadShard& shard : plan.shards) {
      const bool mine = shard.device == one_->device;
      for (const int other : holders) {
        if (!has_rows(shard) || (mine ? other == one_->device : other != shard.device)) {
          continue;
        }
        const Role role = mine ? Role::kSent : Role::kReceived;
        XRUN_ASSIGN(const Buffer* buffer, next(role));
        if (buffer->purpose != Purpose::kHeadStats || buffer->head != one_->head ||
            buffer->head_pass != one_->head_pass) {
          return misplaced(*buffer);
        }
        const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(shard.shard)];
        XRUN_TRY(take_block(role, other, part.stats_offset, part.stats));
      }
    }
    return end();
  }

  // Checks an exchange that sends dX partials to the devices that sum them. If the exchange has a shard, it sends the
  // partials of neighbouring shards of a node, the first of which is this shard; they are summed on this node.
  // Otherwise it sends all terms, which are summed on the devices of the stage that made the features.
  Status check_gradients() {
    if (!has_head() || one_->stage < 0 || !inside(one_->gather, 0, program_.micro_batches_of_replica())) {
      return at_fault("is of no head");
    }
    const HeadPlan& plan = head();
    if (!plan.feature_grad.valid() || !comes_from_stage(plan.feature) ||
        one_->head_pass != (plan.rows == program_.batch ? 0 : one_->gather)) {
      return at_fault("carries the gradient of no feature of its stage");
    }
    const std::span<const DxSum> sums = sums_of_dx_.sums(program_, *one_);
    if (one_->group != group_) {  // the members of a group are next to each other
      group_ = one_->group;
      XRUN_TRY(check_members(members_of(sums)));
    }
    int replica = -1;
    for (const DxSum& sum : sums) {
      if (sum.device == one_->device && one_->shard < 0) {
        replica = sum.replica;
      }
      XRUN_TRY(sum.device == one_->device ? check_dx_received(sum) : check_dx_sent(sum));
    }
    return one_->replica == replica ? end() : at_fault("is of another replica than its device");
  }

  Status check_dx_sent(const DxSum& sum) {
    for (const DxTerm& term : sum.terms) {
      if (term.device != one_->device) {
        continue;
      }
      const HeadGradientRows rows = dx_rows(program_, graph_, head(), term, sum.replica, one_->gather);
      const int first = term.shards.front();
      const ShardPart& partials = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(first)];
      const Bytes begin = term.is_summed() ? 0 : partials.gradient_offset + rows.begin;
      const Bytes step = term.is_summed() ? rows.bytes : rows.step;
      for (int64_t i = 0; i < rows.subtrees; ++i) {
        XRUN_ASSIGN(const Buffer* buffer, next(Role::kSent));
        const bool is_gradient = buffer->purpose == Purpose::kHeadGradient && buffer->head == one_->head &&
                                 buffer->head_pass == one_->head_pass;
        if (!(term.is_summed() ? holds_dx_sums(*buffer, one_->head, micro_batch(sum.replica), first) : is_gradient)) {
          return misplaced(*buffer);
        }
        XRUN_TRY(take_block(Role::kSent, sum.device, begin + i * step, rows.bytes));
      }
    }
    return {};
  }

  Status check_dx_received(const DxSum& sum) {
    Bytes place = 0;
    for (const DxTerm& term : sum.terms) {
      if (term.device == one_->device) {
        continue;
      }
      const HeadGradientRows rows = dx_rows(program_, graph_, head(), term, sum.replica, one_->gather);
      for (int64_t i = 0; i < rows.subtrees; ++i, place += rows.bytes) {
        XRUN_ASSIGN(const Buffer* buffer, next(Role::kReceived));
        if (!holds_dx_terms(*buffer, one_->head, micro_batch(sum.replica), one_->shard)) {
          return misplaced(*buffer);
        }
        XRUN_TRY(take_block(Role::kReceived, term.device, place, rows.bytes));
      }
    }
    return {};
  }

  std::vector<std::vector<ShardPart>> parts_;  // index: head, shard
  std::vector<std::set<int>> holders_;         // index: head; devices of shards with rows
  std::map<int, ValueId> value_of_;            // key: group; features or labels
  int group_ = -1;                             // group of the last checked gradients
  SumsOfDx sums_of_dx_;
};

}  // namespace

Status verify_head_exchanges(const Program& program, const Module& module) {
  return HeadExchanges(program, module).run();
}

}  // namespace xrun::planner
