// Functions that all checks of exchanges use: they determine the exchange to which an instruction belongs, the members
// of its group, and the blocks that are sent and received. The members that a group must have are derived from stages
// and shards, which ensures that exactly the sent blocks are received.
#pragma once

#include <map>
#include <set>

#include "planner/verify/operand_view.h"

namespace xrun::planner {

enum class Exchange {
  kNone,
  kTransfer,        // a micro-batch goes from stage to stage
  kNorms,           // sums of squares go to all devices
  kStatistics,      // statistics of row blocks go to all replicas
  kTerms,           // slices of gradients go to the replicas that sum them
  kSums,            // summed slices go to all replicas
  kPairs,           // compressed gradients go to all replicas
  kReaders,         // gradients of a tied weight go to all stages that read it
  kHeadRows,        // features and labels go to the shards of a head
  kHeadStatistics,  // statistics of logits go to all shards
  kHeadGradients    // gradients of features go to the stage that makes the features, or first to a device of the node
};

// REQUIRES: verified structure, in which every exchange has a group.
class ExchangeView : protected OperandView {
 protected:
  ExchangeView(const Program& program, const Module& module) : OperandView(program, module) {
    for (const Instruction& one : program.instructions) {
      if (one.group >= 0) {
        members_[one.group].insert(one.device);
        stage_of_.try_emplace(one.group, one.stage);
      }
    }
  }

  Exchange exchange() const {
    switch (one_->kind) {
      case Kind::kSend:
      case Kind::kRecv:
        return Exchange::kTransfer;
      case Kind::kAllGather:
        if (one_->head >= 0) {
          return one_->gather >= 0 ? Exchange::kHeadRows : Exchange::kHeadStatistics;
        }
        return one_->stage < 0                 ? Exchange::kNorms
               : is_of_readers()               ? Exchange::kReaders
               : has_first(Purpose::kGradient) ? Exchange::kSums
               : has_first(Purpose::kPairs)    ? Exchange::kPairs
                                               : Exchange::kStatistics;
      case Kind::kReduceScatter:
        return one_->head >= 0 ? Exchange::kHeadGradients : Exchange::kTerms;
      default:
        return Exchange::kNone;
    }
  }

  Status check_members(const std::set<int>& wanted) const {
    return members_.at(one_->group) == wanted ? Status() : at_fault("has other members than its exchange");
  }

  // Checks that the members are all replicas of one stage, and that no other stage is involved.
  Status check_replicas() const {
    XRUN_TRY(check_stage());
    return check_members(devices_of_stage());
  }

  Status check_stage() const {
    return on_its_device() && stage_of_.at(one_->group) == one_->stage ? Status()
                                                                       : at_fault("is of no stage, or elsewhere");
  }

  std::set<int> devices_of_stage() const {
    const auto& devices = program_.stages[static_cast<size_t>(one_->stage)].devices;
    return {devices.begin(), devices.end()};
  }

  int device_of_replica(int replica) const {
    return program_.stages[static_cast<size_t>(one_->stage)].devices[static_cast<size_t>(replica)];
  }

  // Takes the next operand, a block of `bytes` at `offset` of its buffer that is sent to or comes from device `peer`.
  Status take_block(Role role, int peer, Bytes offset, Bytes bytes) {
    return take({.role = role,
                 .access = role == Role::kReceived ? Access::kWrite : Access::kRead,
                 .index = peer,
                 .offset = offset,
                 .bytes = bytes});
  }

  // Takes the next operand, which must be all rows of a micro-batch in a buffer of a stage.
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

  std::map<int, std::set<int>> members_;  // devices of each group

 private:
  bool has_first(Purpose purpose) const {
    return !one_->operands.empty() && program_.buffer(one_->operands[0].buffer).purpose == purpose;
  }

  // Whether an exchange collects the gradients of a tied weight's readers, which other stages have.
  bool is_of_readers() const {
    return (has_first(Purpose::kGradient) || has_first(Purpose::kTerms)) &&
           !devices_of_stage().contains(one_->operands[0].index);
  }

  std::map<int, int> stage_of_;  // key: group; the stage of the first instruction of the group
};

}  // namespace xrun::planner
