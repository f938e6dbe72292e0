// Checks the operands of exchanges between stages, of batch statistics, and of the sums of squares that a clip counts.
// The operands are the rows or blocks that each member sends to each device, and the places where each device receives
// them. For each exchange, the check derives the members and their operands from the module, the stages and the heads,
// and compares them with those in the program.
// Tests: tests/planner/verify/verify_operands_test.cpp, tests/planner/verify/verify_blocks_test.cpp
#include <algorithm>
#include <iterator>
#include <map>

#include "planner/verify/exchange_view.h"

namespace xrun::planner {
namespace {

class ExchangeOperands : ExchangeView {
 public:
  ExchangeOperands(const Program& program, const Module& module) : ExchangeView(program, module) { list_norms(); }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      if (exchange() == Exchange::kStatistics) {
        gathers_of_[one.stage].insert(one.group);
      }
    }
    for (const Instruction& one : program_.instructions) {
      begin(one);
      XRUN_TRY(check());
    }
    return Status();
  }

 private:
  Status check() {
    switch (exchange()) {
      case Exchange::kTransfer:
        return check_transfer();
      case Exchange::kStatistics:
        return check_statistics();
      case Exchange::kNorms:
        return check_norms();
      default:
        return {};
    }
  }

  // Checks the operands of a send or receive between stages. verify_passes has checked that each send has a receive.
  Status check_transfer() {
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

  // Checks an exchange in which each replica sends the batch statistics of its row blocks to all replicas, itself
  // included: all statistics of the stage, in the order of its nodes. Plans of 0.1.0 have an exchange for each of them.
  Status check_statistics() {
    if (one_->operands.empty()) {
      return at_fault("gathers nothing");
    }
    XRUN_TRY(check_replicas());
    std::vector<ValueId> values = statistics_of_stage();
    if (gathers_of_.at(one_->stage).size() == values.size()) {
      const ValueId value = program_.buffer(one_->operands[0].buffer).value;
      if (std::ranges::count(values, value) == 0) {
        return misplaced(program_.buffer(one_->operands[0].buffer));
      }
      if (group_of_.try_emplace(value, one_->group).first->second != one_->group) {
        return at_fault("carries the statistics of another exchange");
      }
      values = {value};
    }
    for (const ValueId value : values) {
      XRUN_TRY(check_statistics(value));
    }
    return end();
  }

  std::vector<ValueId> statistics_of_stage() const {
    std::vector<ValueId> values;
    for (const NodeId id : program_.stages[static_cast<size_t>(one_->stage)].forward) {
      const Node& node = graph_.node(id);
      std::ranges::copy_if(node.outputs, std::back_inserter(values), [&](ValueId value) {
        return program_.training && node.op->folds_states && type(value).per_block();
      });
    }
    return values;
  }

  Status check_statistics(ValueId value) {
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
        XRUN_TRY(take_block(role, device_of_replica(replica), sent ? 0 : part * replica, part));
      }
    }
    return {};
  }

  // Lists the sums of squares that each device computes and sends: for the weights of a stage, the device of replica 0;
  // for heads, the devices of the shards.
  void list_norms() {
    const NormLayout layout = norm_layout(module_, program_.senders());
    constexpr auto kSum = static_cast<Bytes>(sizeof(double));
    for (const Stage& stage : program_.stages) {
      norm_devices_.insert(stage.devices.begin(), stage.devices.end());
      for (const ParamId param : gradients_of(stage, false)) {
        if (graph_.is_tied_copy(param)) {
          continue;  // the squares of a tied weight are counted for its first reader
        }
        made_norms_[stage.devices[0]].insert({layout.offset(param), layout.bytes(param)});
      }
      list_norms_of_senders(stage, layout);
    }
    for (const HeadPlan& plan : program_.heads) {
      for (const HeadShard& shard : plan.shards) {
        if (!module_.train.heads_wait_for_sums() || !plan.loss.valid() || plan.frozen || !has_rows(shard)) {
          continue;
        }
        norm_devices_.insert(shard.device);
        if (!module_.train.clip.heads) {
          continue;
        }
        const BlockRange blocks = plan.blocks().of_rows({shard.row_begin, shard.row_end});
        for (const ParamId param : {plan.weight, plan.bias}) {
          if (param.valid()) {
            made_norms_[shard.device].insert({layout.offset(param) + blocks.begin * kSum, blocks.size() * kSum});
          }
        }
      }
    }
  }

  // With a scale of the loss, each sender counts the gradients that it compresses.
  void list_norms_of_senders(const Stage& stage, const NormLayout& layout) {
    for (const ParamId param : module_.train.loss_scale.is_on() ? gradients_of(stage, true) : std::set<ParamId>()) {
      for (int replica = 0; replica < program_.replicas; ++replica) {
        if (owners_.owns(param, replica)) {
          made_norms_[stage.devices[static_cast<size_t>(replica)]].insert(
              {layout.offset(param, owners_.sender_of(replica)), layout.bytes(param)});
        }
      }
    }
  }

  // Checks an exchange of sums of squares, which is in place. A device may send its blocks in any order, but the order
  // must be the same for all receivers.
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

  std::map<int, std::multiset<std::pair<Bytes, Bytes>>> made_norms_;  // key: device; offsets and bytes
  std::set<int> norm_devices_;
  std::map<int, std::set<int>> gathers_of_;  // key: stage; groups of the exchanges of its statistics
  std::map<ValueId, int> group_of_;          // the group of the exchange of a value that has its own
  std::map<std::pair<int, int>, std::vector<std::pair<Bytes, Bytes>>> norm_order_;  // key: (group, sending device)
};

}  // namespace

Status verify_exchange_operands(const Program& program, const Module& module) {
  XRUN_TRY(ExchangeOperands(program, module).run());
  XRUN_TRY(verify_head_exchanges(program, module));
  return verify_gradient_exchanges(program, module);
}

}  // namespace xrun::planner
