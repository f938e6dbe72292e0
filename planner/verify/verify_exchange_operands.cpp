// Operands of exchanges: the rows that each member sends to each device, and where each device receives them. The
// members of a group follow from stages and shards, so that all sent blocks are received, and no others.
#include <algorithm>
#include <map>

#include "graph/passes/untie.h"
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
    for (const Stage& stage : program.stages) {
      const std::set<ParamId> params = gradients_of(stage, false);
      whole_.emplace_back(params.begin(), params.end());
    }
    list_norms();
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      XRUN_TRY(check());
    }
    return check_all_slices();
  }

 private:
  Status check() {
    switch (one_->kind) {
      case Kind::kSend:
      case Kind::kRecv:
        return check_pair_member();
      case Kind::kAllGather:
        if (one_->head < 0) {
          return one_->stage < 0                 ? check_norms()
                 : is_of_readers()               ? check_readers()
                 : has_first(Purpose::kGradient) ? check_sums()
                 : has_first(Purpose::kPairs)    ? check_pairs()
                                                 : check_statistics();
        }
        return one_->gather >= 0 ? check_gather() : check_head_statistics();
      case Kind::kReduceScatter:
        return one_->head >= 0 ? check_dx() : check_terms();
      default:
        return {};
    }
  }

  bool has_first(Purpose purpose) const {
    return !one_->operands.empty() && program_.buffer(one_->operands[0].buffer).purpose == purpose;
  }

  Status check_members(const std::set<int>& wanted) const {
    return members_.at(one_->group) == wanted ? Status() : at_fault("has other members than its exchange");
  }

  // All replicas of one stage, and of no other that has the same devices.
  Status check_replicas() {
    XRUN_TRY(check_stage());
    return check_members(devices_of_stage());
  }

  Status check_stage() {
    return on_its_device() && stage_of_.try_emplace(one_->group, one_->stage).first->second == one_->stage
               ? Status()
               : at_fault("is of no stage, or elsewhere");
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
    wanted.offset = type(value).bytes(program_.micro_batch_rows() * micro_batch - first_row(*buffer), norm_rows());
    wanted.bytes = type(value).bytes(program_.micro_batch_rows(), norm_rows());
    return take(wanted);
  }

  // verify_passes checks that the pair fits together.
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
                          type(value).bytes(program_.micro_batch_rows() * place, norm_rows()),
                          type(value).bytes(program_.micro_batch_rows(), norm_rows())));
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
    if (one_->operands.empty()) {
      return at_fault("gathers nothing");
    }
    XRUN_TRY(check_replicas());
    const ValueId value = program_.buffer(one_->operands[0].buffer).value;
    if (!value.valid() || !type(value).per_block()) {
      return misplaced(program_.buffer(one_->operands[0].buffer));
    }
    const Bytes part = type(value).bytes(program_.batch / program_.replicas, norm_rows());
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

  // The sums of squares that each device has made: of stages those of replica 0, of heads those of their shards.
  void list_norms() {
    const NormLayout layout = norm_layout(module_);
    constexpr auto kSum = static_cast<Bytes>(sizeof(double));
    for (const Stage& stage : program_.stages) {
      norm_devices_.insert(stage.devices.begin(), stage.devices.end());
      for (const ParamId param : gradients_of(stage, false)) {
        const auto at = static_cast<size_t>(param.index);
        if (graph_.is_tied_copy(param)) {
          continue;  // counted by the first reader
        }
        made_norms_[stage.devices[0]].insert({layout.first[at] * kSum, layout.count[at] * kSum});
      }
    }
    for (const HeadPlan& plan : program_.heads) {
      for (const HeadShard& shard : plan.shards) {
        if (!module_.train.clip.heads || !plan.loss.valid() || plan.frozen || !has_rows(shard)) {
          continue;
        }
        norm_devices_.insert(shard.device);
        const BlockRange blocks = plan.blocks().of_rows({shard.row_begin, shard.row_end});
        for (const ParamId param : {plan.weight, plan.bias}) {
          if (param.valid()) {
            made_norms_[shard.device].insert(
                {(layout.first[static_cast<size_t>(param.index)] + blocks.begin) * kSum, blocks.size() * kSum});
          }
        }
      }
    }
  }

  // Sums of squares, in place. The blocks that a device sends may have any order, but it is the same for all receivers.
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

  // dX partials of all shards, to the devices of the stage that made the features: the rows that each of them has made.
  Status check_dx() {
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
      return at_fault("carries the gradient of no feature of its stage");
    }
    for (int replica = 0; replica < program_.replicas; ++replica) {
      if (stage.devices[static_cast<size_t>(replica)] == one_->device) {
        XRUN_TRY(check_dx_received(plan, replica));
      } else {
        XRUN_TRY(check_dx_sent(plan, replica, stage.devices[static_cast<size_t>(replica)]));
      }
    }
    return end();
  }

  // Row blocks of a replica's micro-batch in each subtree of a shard: where the first begins, bytes, subtrees.
  HeadGradientRows dx_rows(const HeadPlan& plan, const HeadShard& shard, int replica) const {
    const bool one_pass = plan.rows == program_.batch;
    const int64_t first = program_.micro_batch_rows() * (one_pass ? micro_batch(replica) : replica);
    return head_gradient_rows(head_shape(program_, graph_, plan, shard, plan.rows), first,
                              first + program_.micro_batch_rows());
  }

  Status check_dx_sent(const HeadPlan& plan, int replica, int to) {
    for (const HeadShard& shard : plan.shards) {
      if (shard.device != one_->device || !has_rows(shard)) {
        continue;
      }
      const HeadGradientRows rows = dx_rows(plan, shard, replica);
      const ShardPart& part = parts_[static_cast<size_t>(one_->head)][static_cast<size_t>(shard.shard)];
      for (int64_t i = 0; i < rows.subtrees; ++i) {
        XRUN_ASSIGN(const Buffer* buffer, next(Role::kSent));
        if (buffer->purpose != Purpose::kHeadGradient || buffer->head != one_->head ||
            buffer->head_pass != one_->head_pass) {
          return misplaced(*buffer);
        }
        XRUN_TRY(take_block(Role::kSent, to, part.gradient_offset + rows.begin + i * rows.step, rows.bytes));
      }
    }
    return {};
  }

  Status check_dx_received(const HeadPlan& plan, int replica) {
    if (one_->replica != replica) {
      return at_fault("is of another replica than its device");
    }
    Bytes place = 0;
    for (const HeadShard& shard : plan.shards) {
      const bool other = shard.device != one_->device && has_rows(shard);
      const HeadGradientRows rows = other ? dx_rows(plan, shard, replica) : HeadGradientRows{};
      for (int64_t i = 0; i < rows.subtrees; ++i, place += rows.bytes) {
        XRUN_ASSIGN(const Buffer* buffer, next(Role::kReceived));
        if (!holds_dx_terms(*buffer, one_->head, micro_batch(replica))) {
          return misplaced(*buffer);
        }
        XRUN_TRY(take_block(Role::kReceived, shard.device, place, rows.bytes));
      }
    }
    return {};
  }

  // Slices of gradients to the replicas that sum them in the round that has the group's members.
  Status check_terms() {
    XRUN_TRY(check_stage());
    for (int round = 0; round < sums_.rounds(); ++round) {
      std::set<int> devices;
      for (const int replica : sums_.members(round, one_->replica)) {
        devices.insert(device_of_replica(replica));
      }
      if (members_.at(one_->group) == devices) {
        return check_slices(round);
      }
    }
    return at_fault("has other members than its exchange");
  }

  // Sums to all replicas.
  Status check_sums() {
    XRUN_TRY(check_replicas());
    return check_slices(sums_.rounds());
  }

  // An exchange carries a run of the weights, which is the same for all members; the runs of a stage follow one another
  // in each round, and in the exchange of the sums behind the last one.
  Status check_slices(int round) {
    const std::vector<ParamId>& all = whole_[static_cast<size_t>(one_->stage)];
    size_t& next = sliced_[{one_->stage, one_->replica, round}];
    const size_t first = next;
    while (next < all.size() && at_ < one_->operands.size()) {
      XRUN_TRY(round < sums_.rounds() ? check_terms_of(all[next], round) : check_sum_of(all[next]));
      ++next;
    }
    const std::pair run(first, next);
    if (first == next || runs_.try_emplace(one_->group, run).first->second != run) {
      return at_fault("carries the slices of other weights than its exchange");
    }
    return end();
  }

  Status check_terms_of(ParamId param, int round) {
    Bytes place = 0;
    const Slice own = slice_of(param, round, one_->replica);
    for (const int other : sums_.members(round, one_->replica)) {
      if (other != one_->replica) {
        XRUN_TRY(take_slice(Role::kSent, param, other, slice_of(param, round, other)));
        XRUN_TRY(take_terms(param, other, {place, own.bytes}));
        place += own.bytes;
      }
    }
    return {};
  }

  Status check_sum_of(ParamId param) {
    for (int other = 0; other < program_.replicas; ++other) {
      if (other != one_->replica) {
        XRUN_TRY(take_slice(Role::kSent, param, other, summed_slice(param, one_->replica)));
        XRUN_TRY(take_slice(Role::kReceived, param, other, summed_slice(param, other)));
      }
    }
    return {};
  }

  // All gradients of a stage are sent to the replicas that sum them in each round, and the sums to all. Small gradients
  // have no elements for some of the sums.
  Status check_all_slices() {
    for (const Stage& stage : program_.stages) {
      const std::vector<ParamId>& all = whole_[static_cast<size_t>(stage.index)];
      for (int replica = 0; program_.replicas > 1 && replica < program_.replicas; ++replica) {
        for (int round = 0; round <= sums_.rounds(); ++round) {
          const auto left = std::ranges::subrange(all.begin() + sliced_[{stage.index, replica, round}], all.end());
          if (std::ranges::any_of(left, [&](ParamId param) { return exchanges(param, round, replica); })) {
            return wrong("replica {} does not exchange all gradients of stage {}", replica, stage.index);
          }
        }
      }
    }
    return {};
  }

  // Whether the members of a replica's sum share out any elements of a gradient in a round.
  bool exchanges(ParamId param, int round, int replica) const {
    return round == sums_.rounds() || sums_.shared(elements_of(param), round, replica).bytes > 0;
  }

  // Whether an exchange brings together the gradients of a tied weight's readers, which other stages have.
  bool is_of_readers() const {
    return (has_first(Purpose::kGradient) || has_first(Purpose::kTerms)) &&
           !devices_of_stage().contains(one_->operands[0].index);
  }

  // The gradients of a tied weight's readers on this device to the others that read it, and theirs.
  Status check_readers() {
    if (!on_its_device()) {
      return at_fault("is of no stage, or elsewhere");
    }
    const Buffer& first = program_.buffer(one_->operands[0].buffer);
    const std::vector<ParamId> readers = first.param.valid() ? tied_group(graph_, first.param) : std::vector<ParamId>();
    if (readers.empty()) {
      return misplaced(first);
    }
    // One weight in a group, and one group for a weight of a replica.
    const ParamId weight = graph_.param(first.param).tied;
    if (tied_of_.try_emplace(one_->group, weight).first->second != weight ||
        group_of_.try_emplace({weight.index, one_->replica}, one_->group).first->second != one_->group) {
      return at_fault("exchanges another weight than its group, or one that is exchanged twice");
    }
    std::vector<int> devices;  // by reader
    for (const ParamId reader : readers) {
      const NodeId maker = graph_.value(graph_.param_grads[reader]).producer;
      for (const Stage& stage : program_.stages) {
        if (std::ranges::count(stage.backward, maker) > 0) {
          devices.push_back(stage.devices[static_cast<size_t>(one_->replica)]);
        }
      }
    }
    const std::set<int> members(devices.begin(), devices.end());
    XRUN_TRY(check_members(members));
    for (size_t i = 0; i < readers.size(); ++i) {
      const Bytes bytes = type(graph_.param_grads[readers[i]]).bytes(0, norm_rows());
      const bool here = devices[i] == one_->device;
      for (const int peer : here ? members : std::set<int>{devices[i]}) {
        if (peer == one_->device) {
          continue;
        }
        const Role role = here ? Role::kSent : Role::kReceived;
        XRUN_ASSIGN(const Buffer* buffer, next(role));
        if (buffer != own(readers[i], here ? Purpose::kGradient : Purpose::kTerms)) {
          return misplaced(*buffer);
        }
        XRUN_TRY(take_block(role, peer, 0, bytes));
      }
    }
    return end();
  }

  // The pairs of a replica to all others, in place. Weights have one order for all members.
  Status check_pairs() {
    XRUN_TRY(check_replicas());
    for (const ParamId param : gradients_of(program_.stages[static_cast<size_t>(one_->stage)], true)) {
      const Bytes bytes = pairs_bytes(module_, param);
      for (int other = 0; other < program_.replicas; ++other) {
        for (const Role role : {Role::kSent, Role::kReceived}) {
          if (other == one_->replica) {
            continue;
          }
          XRUN_ASSIGN(const Buffer* buffer, next(role));
          if (buffer != own(param, Purpose::kPairs)) {
            return misplaced(*buffer);
          }
          XRUN_TRY(
              take_block(role, device_of_replica(other), bytes * (role == Role::kSent ? one_->replica : other), bytes));
        }
      }
    }
    return end();
  }

  int device_of_replica(int replica) const {
    return program_.stages[static_cast<size_t>(one_->stage)].devices[static_cast<size_t>(replica)];
  }

  // A slice of the gradient itself; a slice without elements is not sent.
  Status take_slice(Role role, ParamId param, int other, Slice slice) {
    if (slice.bytes == 0) {
      return {};
    }
    XRUN_ASSIGN(const Buffer* buffer, next(role));
    return buffer == own(param, Purpose::kGradient)
               ? take_block(role, device_of_replica(other), slice.offset, slice.bytes)
               : misplaced(*buffer);
  }

  Status take_terms(ParamId param, int other, Slice slice) {
    if (slice.bytes == 0) {
      return {};
    }
    XRUN_ASSIGN(const Buffer* buffer, next(Role::kReceived));
    return buffer == own(param, Purpose::kTerms)
               ? take_block(Role::kReceived, device_of_replica(other), slice.offset, slice.bytes)
               : misplaced(*buffer);
  }

  std::map<int, std::set<int>> members_;                              // devices by group
  std::vector<std::vector<ShardPart>> parts_;                         // by head, by shard
  std::vector<std::set<int>> holders_;                                // by head: devices of shards with rows
  std::map<int, std::multiset<std::pair<Bytes, Bytes>>> made_norms_;  // by device: offsets and bytes
  std::set<int> norm_devices_;
  std::map<int, int> stage_of_;              // by group of an exchange of replicas
  std::vector<std::vector<ParamId>> whole_;  // by stage: weights whose gradients are sent whole
  // Slices that were exchanged: weights of a stage, by (stage, replica, round); those of a group.
  std::map<std::tuple<int, int, int>, size_t> sliced_;
  std::map<int, std::pair<size_t, size_t>> runs_;
  std::map<int, ParamId> tied_of_;                   // by group: the tied weight whose gradients it exchanges
  std::map<std::pair<int32_t, int>, int> group_of_;  // by tied weight and replica
  std::map<std::pair<int, int>, std::vector<std::pair<Bytes, Bytes>>> norm_order_;  // (group, sending device)
};

}  // namespace

Status verify_exchange_operands(const Program& program, const Module& module) {
  return ExchangeOperands(program, module).run();
}

}  // namespace xrun::planner
