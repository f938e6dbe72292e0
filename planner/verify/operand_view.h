// The verifier's view of the operands of an instruction. The verifier derives each operand from the module and the
// buffers; `take` compares it as a whole with the next operand of the instruction.
#pragma once

#include <algorithm>
#include <set>
#include <string>

#include "graph/layouts/norm_layout.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/compression_owners.h"
#include "planner/program/replica_sums.h"
#include "planner/verify/verify_parts.h"

namespace xrun::planner {

// REQUIRES: verified structure and buffers (verify_structure, verify_buffers).
class OperandView {
 protected:
  OperandView(const Program& program, const Module& module)
      : program_(program),
        module_(module),
        graph_(module.graph),
        params_(program),
        sums_(program),
        owners_(program, module) {}

  template <typename... Args>
  Error at_fault(fmt::format_string<Args...> what, Args&&... args) const {
    return wrong("instruction {} ({}) {}", one_->id.index, name_of(one_->kind),
                 fmt::format(what, std::forward<Args>(args)...));
  }

  void begin(const Instruction& one) {
    one_ = &one;
    at_ = 0;
  }

  bool next_is(Role role) const { return at_ < one_->operands.size() && one_->operands[at_].role == role; }

  // Returns the buffer of the next operand, which must have this role.
  Result<const Buffer*> next(Role role) const {
    if (!next_is(role)) {
      return at_fault("has {} where its operand {} is its {}",
                      at_ < one_->operands.size() ? name_of(one_->operands[at_].role) : "nothing", at_, name_of(role));
    }
    return &program_.buffer(one_->operands[at_].buffer);
  }

  // Takes the next operand, which must equal `wanted` in all fields except the buffer, which the caller has checked.
  Status take(Operand wanted) {
    const Operand& has = one_->operands[at_++];
    wanted.buffer = has.buffer;
    return has == wanted ? Status() : at_fault("has a wrong operand {} ({})", at_ - 1, name_of(wanted.role));
  }

  // Takes the next operand, which must be all of `buffer`.
  Status take_whole(Role role, Access access, const Buffer* buffer, ParamId param = {}, int32_t index = -1) {
    XRUN_ASSIGN(const Buffer* has, next(role));
    if (has != buffer) {
      return misplaced(*has);
    }
    return take({.role = role, .access = access, .param = param, .index = index, .bytes = has->bytes});
  }

  Status end() const {
    return at_ == one_->operands.size()
               ? Status()
               : at_fault("has an operand {} ({}) too many", at_, name_of(one_->operands[at_].role));
  }

  Error misplaced(const Buffer& buffer) const {
    return at_fault("cannot work on buffer {} ({})", buffer.id.index, buffer.name);
  }

  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  int64_t norm_rows() const { return program_.norm_rows; }
  bool has_head() const { return inside(one_->head, 0, count(program_.heads)); }
  const HeadPlan& head() const { return program_.heads[static_cast<size_t>(one_->head)]; }
  static bool has_rows(const HeadShard& shard) { return shard.row_begin < shard.row_end; }

  // Returns the devices that have shards with rows.
  static std::set<int> holders_of(const HeadPlan& head) {
    std::set<int> devices;
    for (const HeadShard& shard : head.shards) {
      if (has_rows(shard)) {
        devices.insert(shard.device);
      }
    }
    return devices;
  }

  // Returns the weights outside of heads whose gradients are outputs of backward nodes of a stage.
  std::set<ParamId> gradients_of(const Stage& stage) const {
    const std::set<NodeId> nodes(stage.backward.begin(), stage.backward.end());
    std::set<ParamId> params;
    for (size_t p = 0; p < graph_.param_grads.size(); ++p) {
      const ParamId param(p);
      const ValueId grad = graph_.param_grads[param];
      if (grad.valid() && !graph_.param(param).head && nodes.contains(graph_.value(grad).producer)) {
        params.insert(param);
      }
    }
    return params;
  }

  bool compressed(ParamId param) const { return owners_.compresses(param); }
  // Returns those weights of gradients_of(stage) whose gradients are compressed, or those that are sent whole.
  std::set<ParamId> gradients_of(const Stage& stage, bool compressed_ones) const {
    std::set<ParamId> params = gradients_of(stage);
    std::erase_if(params, [&](ParamId param) { return compressed(param) != compressed_ones; });
    return params;
  }

  // Returns the buffer of a parameter on the instruction's device; null if it does not exist.
  const Buffer* own(ParamId param, Purpose purpose, int state = -1) const {
    return params_.find(param, purpose, one_->replica, one_->device, state);
  }

  // Returns the buffer of a weight or running state on the instruction's device; null if it does not exist.
  const Buffer* parameter(ParamId param) const {
    const Buffer* buffer = own(params_.holder(graph_, param, one_->replica, one_->device), Purpose::kWeight);
    return buffer != nullptr ? buffer : own(param, Purpose::kState);
  }

  // Replaces each reader of a tied weight in `params` by the parameter whose weight and gradient the device has for it.
  std::set<ParamId> held(const std::set<ParamId>& params, int replica, int device) const {
    std::set<ParamId> holders;
    for (const ParamId param : params) {
      holders.insert(params_.holder(graph_, param, replica, device));
    }
    return holders;
  }

  // Returns the row of the batch that is the first row of a stage's buffer.
  int64_t first_row(const Buffer& buffer) const {
    return buffer.micro_batch >= 0 ? buffer.micro_batch * program_.micro_batch_rows()
           : buffer.replica < 0    ? 0
                                   : program_.batch / program_.replicas * buffer.replica;
  }

  // Whether a stage's buffer has the rows of a micro-batch, counted globally.
  bool holds(const Buffer& rows, int micro_batch) const {
    return rows.head < 0 &&
           (rows.micro_batch >= 0
                ? rows.micro_batch == micro_batch
                : rows.replica < 0 || rows.replica == micro_batch / program_.micro_batches_of_replica());
  }

  // Returns how a gradient is summed: over all replicas or, if it is compressed, over the replicas of a sender.
  ReplicaSums sums_of(ParamId param) const { return compressed(param) ? owners_.sums(param) : sums_; }
  // The slice of a gradient that a replica sums in a round. `summed_slice` is its slice of the last round, which the
  // replica then sends to all other replicas.
  Slice slice_of(ParamId param, int round, int replica) const {
    return sums_of(param).slice(elements_of(param), round, replica);
  }
  Slice summed_slice(ParamId param, int replica) const { return slice_of(param, sums_.rounds() - 1, replica); }
  int64_t elements_of(ParamId param) const { return type(graph_.param_grads[param]).elements(0, 0); }

  // Whether a buffer has terms from other devices for a sum of dX of a micro-batch: for the sum over all shards
  // (`shard` is -1), or for the sum over shards of a node (`shard` is the first of them). `holds_dx_sums` states
  // whether a buffer has the result of a sum over shards of a node.
  static bool holds_dx_terms(const Buffer& buffer, int head, int micro_batch, int shard) {
    return buffer.purpose == Purpose::kTerms && is_of_dx(buffer, head, micro_batch, shard);
  }
  static bool holds_dx_sums(const Buffer& buffer, int head, int micro_batch, int shard) {
    return buffer.purpose == Purpose::kHeadSums && is_of_dx(buffer, head, micro_batch, shard);
  }
  static bool is_of_dx(const Buffer& buffer, int head, int micro_batch, int shard) {
    return buffer.head == head && buffer.micro_batch == micro_batch && buffer.shard == shard;
  }

  // Whether a node of the instruction's stage makes `value`.
  bool comes_from_stage(ValueId value) const {
    if (one_->stage < 0) {
      return false;
    }
    const std::vector<NodeId>& nodes = program_.stages[static_cast<size_t>(one_->stage)].forward;
    return std::find(nodes.begin(), nodes.end(), graph_.value(value).producer) != nodes.end();
  }

  bool on_its_device() const {
    return one_->stage >= 0 && one_->replica >= 0 &&
           program_.stages[static_cast<size_t>(one_->stage)].devices[static_cast<size_t>(one_->replica)] ==
               one_->device;
  }

  const Program& program_;
  const Module& module_;
  const Graph& graph_;
  ParamBuffers params_;
  ReplicaSums sums_;  // sums of gradients that are sent whole
  CompressionOwners owners_;
  const Instruction* one_ = nullptr;  // the instruction being checked
  size_t at_ = 0;                     // index of the next operand of the instruction
};

}  // namespace xrun::planner
