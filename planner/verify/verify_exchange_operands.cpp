// Operands of exchanges: which rows each member sends to which device, and where each device receives them. Members of
// a group are those that follow from stages and shards, so that every block that is sent is received, and no other.
#include <algorithm>
#include <map>

#include "planner/verify/operand_view.h"

namespace xrun::planner {
namespace {

class ExchangeOperands : OperandView {
 public:
  ExchangeOperands(const Program& program, const Module& module) : OperandView(program, module) {
    for (const Instruction& one : program.instructions) {
      if (one.group >= 0) {
        members_[one.group].insert(one.device);
      }
    }
    for (const HeadPlan& head : program.heads) {
      parts_.push_back(shard_parts(program, graph_, head));
      holders_.push_back(holders_of(head));
    }
    list_norms();
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      XRUN_TRY(check());
    }
    return {};
  }

 private:
  Status check() {
    switch (one_->kind) {
      case Kind::kSend:
      case Kind::kRecv:
        return check_pair_member();
      case Kind::kAllGather:
        if (one_->head < 0) {
          return one_->stage < 0 ? check_norms() : check_statistics();
        }
        return one_->gather >= 0 ? check_gather() : check_head_statistics();
      case Kind::kReduceScatter:
        return check_scatter();
      case Kind::kAllReduce:
        return check_reduce();
      default:
        return {};
    }
  }

  Status check_members(const std::set<int>& wanted) const {
    return members_.at(one_->group) == wanted ? Status() : at_fault("has other members than its exchange");
  }

  std::set<int> devices_of_stage() const {
    const auto& devices = program_.stages[static_cast<size_t>(one_->stage)].devices;
    return {devices.begin(), devices.end()};
  }

  // A block of `bytes` at `offset` of the buffer of the next operand, to or from device `peer`.
  Status take_block(Role role, int peer, Bytes offset, Bytes bytes) {
    return take({.role = role,
                 .access = role == Role::kReceived ? Access::kWrite : Access::kRead,
                 .index = peer,
                 .offset = offset,
                 .bytes = bytes});
  }

  // All rows of a micro-batch in a buffer of a stage.
  Status take_micro_batch(Operand wanted, ValueId value, int micro_batch) {
    XRUN_ASSIGN(const Buffer* buffer, next(wanted.role));
    const bool of_stage = buffer->purpose == Purpose::kActivation || buffer->purpose == Purpose::kResult;
    if (!of_stage || buffer->value != value || !holds(*buffer, micro_batch)) {
      return misplaced(*buffer);
    }
    wanted.offset = type(value).bytes(program_.micro_batch_rows() * micro_batch - first_row(*buffer), g());
    wanted.bytes = type(value).bytes(program_.micro_batch_rows(), g());
    return take(wanted);
  }

  // That the pair fits together is the matter of verify_passes.
  Status check_pair_member() {
    const bool send = one_->kind == Kind::kSend;
    XRUN_ASSIGN(const Buffer* buffer, next(send ? Role::kSent : Role::kReceived));
    const auto& members = members_.at(one_->group);
    const auto peer = std::find_if(members.begin(), members.end(), [&](int d) { return d != one_->device; });
    if (one_->micro_batch < 0 || !buffer->value.valid() || peer == members.end() ||
        (!send && buffer->micro_batch != one_->micro_batch)) {
      return at_fault("carries no rows of micro-batch {} to another device", one_->micro_batch);
    }
    XRUN_TRY(take_micro_batch(
        {.role = send ? Role::kSent : Role::kReceived, .access = send ? Access::kRead : Access::kWrite, .index = *peer},
        buffer->value, one_->micro_batch));
    return end();
  }

  // Features or labels of a micro-batch of every replica, from the stage that makes them to the devices of the shards.
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
    if (!value.valid() || (value != plan.feature && value != plan.label) || !comes_from(stage, value)) {
      return misplaced(program_.buffer(one_->operands[0].buffer));
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
                          type(value).bytes(program_.micro_batch_rows() * place, g()),
                          type(value).bytes(program_.micro_batch_rows(), g())));
    }
    return end();
  }

  bool comes_from(const Stage& stage, ValueId value) const {
    return std::find(stage.forward.begin(), stage.forward.end(), graph_.value(value).producer) != stage.forward.end();
  }

  int micro_batch(int replica) const { return replica * program_.micro_batches_of_replica() + one_->gather; }

  // Each shard's statistics to the devices of all other shards, in place.
  Status check_head_statistics() {
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

  // Batch statistics of each replica's row blocks to all replicas, those of the own one included.
  Status check_statistics() {
    if (!on_its_device() || one_->operands.empty()) {
      return at_fault("is of no stage, or elsewhere");
    }
    XRUN_TRY(check_members(devices_of_stage()));
    const ValueId value = program_.buffer(one_->operands[0].buffer).value;
    if (!value.valid() || !type(value).per_block()) {
      return misplaced(program_.buffer(one_->operands[0].buffer));
    }
    const Bytes part = type(value).bytes(program_.batch / program_.replicas, g());
    for (const Role role : {Role::kSent, Role::kReceived}) {
      for (int replica = 0; replica < program_.replicas; ++replica) {
        XRUN_ASSIGN(const Buffer* buffer, next(role));
        const bool sent = role == Role::kSent;
        if (buffer->value != value || buffer->micro_batch >= 0 || buffer->head >= 0 ||
            buffer->purpose != (sent ? Purpose::kActivation : Purpose::kGathered) ||
            buffer->replica != (sent ? one_->replica : -1)) {
          return misplaced(*buffer);
        }
        XRUN_TRY(take_block(role,
                            program_.stages[static_cast<size_t>(one_->stage)].devices[static_cast<size_t>(replica)],
                            sent ? 0 : part * replica, part));
      }
    }
    return end();
  }

  // Which device has made which sums of squares: of stages those of replica 0, of heads those of their shards.
  void list_norms() {
    const NormLayout layout = norm_layout(module_);
    constexpr auto kSum = static_cast<Bytes>(sizeof(double));
    for (const Stage& stage : program_.stages) {
      norm_devices_.insert(stage.devices.begin(), stage.devices.end());
      for (const ParamId param : gradients_of(stage)) {
        const auto at = static_cast<size_t>(param.index);
        made_norms_[stage.devices[0]].insert({layout.first[at] * kSum, layout.count[at] * kSum});
      }
    }
    for (const HeadPlan& plan : program_.heads) {
      for (const HeadShard& shard : plan.shards) {
        if (!module_.train.clip.heads || !plan.loss.valid() || plan.frozen || !has_rows(shard)) {
          continue;
        }
        norm_devices_.insert(shard.device);
        const BlockRange blocks = blocks_of(plan.classes, {shard.row_begin, shard.row_end});
        for (const ParamId param : {plan.weight, plan.bias}) {
          if (param.valid()) {
            made_norms_[shard.device].insert(
                {(layout.first[static_cast<size_t>(param.index)] + blocks.begin) * kSum, blocks.size() * kSum});
          }
        }
      }
    }
  }

  // Sums of squares, in place. Blocks of one pair of devices have the order in which the sender's instructions made
  // them: any, but one for all.
  Status check_norms() {
    XRUN_TRY(check_members(norm_devices_));
    for (const auto& [from, sums] : made_norms_) {
      for (const int to : norm_devices_) {
        if (from == to || (from != one_->device && to != one_->device)) {
          continue;
        }
        auto left = sums;
        std::vector<std::pair<Bytes, Bytes>> order;
        for (size_t i = 0; i < sums.size(); ++i) {
          const Role role = from == one_->device ? Role::kSent : Role::kReceived;
          XRUN_ASSIGN(const Buffer* buffer, next(role));
          const Operand& has = one_->operands[at_];
          const auto found = left.find({has.offset, has.bytes});
          if (buffer->purpose != Purpose::kNorms || found == left.end()) {
            return misplaced(*buffer);
          }
          left.erase(found);
          order.emplace_back(has.offset, has.bytes);
          XRUN_TRY(take_block(role, from == one_->device ? to : from, has.offset, has.bytes));
        }
        if (norm_order_.try_emplace({one_->group, from}, order).first->second != order) {
          return at_fault("has sums of device {} in another order than the other members", from);
        }
      }
    }
    return end();
  }

  // dX partials of all shards to the gradient of the rows that the member's stage has made.
  Status check_scatter() {
    if (!has_head() || one_->stage < 0 || !inside(one_->gather, 0, program_.micro_batches_of_replica())) {
      return at_fault("is of no head");
    }
    const HeadPlan& plan = head();
    const Stage& stage = program_.stages[static_cast<size_t>(one_->stage)];
    std::set<int> wanted = holders_[static_cast<size_t>(one_->head)];
    wanted.insert(stage.devices.begin(), stage.devices.end());
    XRUN_TRY(check_members(wanted));
    if (!plan.feature_grad.valid() || !comes_from(stage, plan.feature) ||
        one_->head_pass != (plan.rows == program_.batch ? 0 : one_->gather)) {
      return at_fault("sums the gradient of no feature of its stage");
    }
    const auto replica = std::find(stage.devices.begin(), stage.devices.end(), one_->device) - stage.devices.begin();
    const bool takes = replica < std::ssize(stage.devices);
    if (takes != (one_->replica >= 0) || (takes && one_->replica != replica)) {
      return at_fault("is of another replica than its device");
    }
    if (takes) {
      XRUN_TRY(take_micro_batch({.role = Role::kFeature, .access = Access::kRead}, plan.feature,
                                micro_batch(one_->replica)));
    }
    for (const HeadShard& shard : plan.shards) {
      if (shard.device != one_->device || !has_rows(shard)) {
        continue;
      }
      XRUN_ASSIGN(const Buffer* buffer, next(Role::kDx));
      if (buffer->purpose != Purpose::kHeadGradient || buffer->head != one_->head ||
          buffer->head_pass != one_->head_pass) {
        return misplaced(*buffer);
      }
      const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(shard.shard)];
      XRUN_TRY(take_block(Role::kDx, shard.shard, part.gradient_offset, part.gradient));
    }
    if (takes) {
      XRUN_TRY(take_micro_batch({.role = Role::kFeatureGradient, .access = Access::kWrite}, plan.feature_grad,
                                micro_batch(one_->replica)));
    }
    return end();
  }

  // Terms are told apart by their place alone: every member gives the same weights in the same order. The operands
  // themselves are the matter of verify_update_operands.
  Status check_reduce() {
    XRUN_TRY(check_members(devices_of_stage()));
    std::vector<ParamId> order;
    for (const Operand& operand : one_->operands) {
      order.push_back(operand.param);
    }
    return sum_order_.try_emplace(one_->group, order).first->second == order
               ? Status()
               : at_fault("sums other weights than the first member of its group, or in another order");
  }

  std::map<int, std::set<int>> members_;                              // devices by group
  std::vector<std::vector<ShardPart>> parts_;                         // by head, by shard
  std::vector<std::set<int>> holders_;                                // by head: devices of shards with rows
  std::map<int, std::multiset<std::pair<Bytes, Bytes>>> made_norms_;  // by device: offsets and bytes
  std::set<int> norm_devices_;
  std::map<std::pair<int, int>, std::vector<std::pair<Bytes, Bytes>>> norm_order_;  // (group, sending device)
  std::map<int, std::vector<ParamId>> sum_order_;                                   // by group
};

}  // namespace

Status verify_exchange_operands(const Program& program, const Module& module) {
  return ExchangeOperands(program, module).run();
}

}  // namespace xrun::planner
