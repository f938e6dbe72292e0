// Checks the operands of one instruction at the end of a step: a sum, a compression, a norm or an update.
// Tests: tests/planner/verify/verify_operands_test.cpp
#include <algorithm>

#include "graph/layouts/compression.h"
#include "graph/passes/untie.h"
#include "planner/verify/update_operands.h"

namespace xrun::planner {

Status UpdateOperands::check_gradient() {
  const Operand& has = one_->operands[at_];
  const Buffer* gradient = left_.erase(has.param) == 0 ? nullptr : own(has.param, Purpose::kGradient);
  if (gradient == nullptr || gradient->id != has.buffer) {
    return misplaced(program_.buffer(has.buffer));
  }
  const ParamId param = has.param;
  const bool sums_pairs = one_->kind == Kind::kUpdate && compressed(param);
  XRUN_TRY(take({.role = Role::kGradient,
                 .access = one_->kind == Kind::kFoldPartials ? Access::kUpdate
                           : sums_pairs                      ? Access::kWrite
                                                             : Access::kRead,
                 .by = By::kPartial,
                 .param = param,
                 .bytes = type(gradient->value).bytes(0, norm_rows()),
                 .step = gradient->bytes / program_.partials_of_replica()}));
  ended_[{one_->stage, one_->replica}].insert(param);
  if (one_->kind == Kind::kFoldPartials) {
    return folded_[{one_->stage, one_->replica}].insert(param).second
               ? Status()
               : at_fault("sums the partials of `{}` again", graph_.param(param).name);
  }
  if (!is_folded(param)) {
    return at_fault("works on gradients that are not summed over partials and replicas");
  }
  if (one_->kind == Kind::kNorm) {
    return check_norms(param);
  }
  if (one_->kind == Kind::kCompress) {
    return check_compress(param);
  }
  XRUN_TRY(take_whole(Role::kWeight, Access::kUpdate, own(param, Purpose::kWeight), param));
  if (sums_pairs) {
    if ((owners_.owns(param, one_->replica) && !done().contains(rank_of_compression())) ||
        (program_.replicas > 1 && !gathers_.contains({one_->stage, one_->replica}))) {
      return at_fault("adds pairs of `{}` that no instruction makes or brings", graph_.param(param).name);
    }
    return take_whole(Role::kPairs, Access::kRead, own(param, Purpose::kPairs), param);
  }
  for (int state = 0; state < states_; ++state) {
    XRUN_TRY(take_whole(Role::kState, Access::kUpdate, own(param, Purpose::kOptimizer, state), param, state));
  }
  return {};
}

// Checks the operands of a compression after the gradient: the weight, which is needed for weight decay; the states
// of the sender; and the sender's place in the buffer of pairs.
Status UpdateOperands::check_compress(ParamId param) {
  if (program_.sender_replicas > 1 && rounds_summed(param) == 0) {
    return at_fault("compresses the gradient of `{}` before the replicas of its node have summed it",
                    graph_.param(param).name);
  }
  XRUN_TRY(take_whole(Role::kWeight, Access::kRead, own(param, Purpose::kWeight), param));
  for (int state = 0; state < static_cast<int>(std::size(kResidualStates)); ++state) {
    XRUN_TRY(take_whole(Role::kState, Access::kUpdate, own(param, Purpose::kResidual, state), param, state));
  }
  XRUN_ASSIGN(const Buffer* pairs, next(Role::kPairs));
  if (pairs != own(param, Purpose::kPairs)) {
    return misplaced(*pairs);
  }
  const Bytes bytes = pairs_bytes(module_, param);
  return take({.role = Role::kPairs,
               .access = Access::kWrite,
               .param = param,
               .offset = bytes * owners_.sender_of(one_->replica),
               .bytes = bytes});
}

// Checks the operands of a sum: for each gradient of a bucket, the slice of the replica itself, and the same slice
// from each other member, which an exchange has delivered.
Status UpdateOperands::check_sums(const std::set<ParamId>& params) {
  if (!next_is(Role::kSum)) {
    return at_fault("sums nothing");
  }
  while (next_is(Role::kSum)) {
    const ParamId param = one_->operands[at_].param;
    int& round = summed_[{one_->stage, one_->replica}][param];
    if (!params.contains(param) || round == sums_of(param).rounds()) {
      return at_fault("sums another gradient than those of its stage, or one of them again");
    }
    if (received_[{one_->stage, one_->replica}][param] != round + 1) {
      return at_fault("sums slices of `{}` that no exchange has brought", graph_.param(param).name);
    }
    XRUN_TRY(check_sum(param, round++));
  }
  return {};
}

Status UpdateOperands::check_sum(ParamId param, int round) {
  const Slice slice = slice_of(param, round, one_->replica);
  XRUN_TRY(take_term(Role::kSum, param, -1, slice));
  Bytes place = 0;
  for (const int replica : sums_of(param).members(round, one_->replica)) {
    if (replica != one_->replica) {
      XRUN_TRY(take_term(Role::kTerm, param, replica, {place, slice.bytes}));
      place += slice.bytes;
    }
  }
  return {};
}

Status UpdateOperands::take_term(Role role, ParamId param, int replica, Slice slice) {
  XRUN_ASSIGN(const Buffer* buffer, next(role));
  if (slice.bytes == 0 || buffer != own(param, role == Role::kSum ? Purpose::kGradient : Purpose::kTerms)) {
    return misplaced(*buffer);
  }
  return take({.role = role,
               .access = Access::kUpdate,
               .param = param,
               .index = replica,
               .offset = slice.offset,
               .bytes = slice.bytes});
}

// Checks the operands of a sum of tied weights: for each tied weight, the gradient of the device's copy and the
// gradients of all other readers.
Status UpdateOperands::check_tied_sums() {
  for (const ParamId held : std::set<ParamId>(left_)) {
    left_.erase(held);
    const std::vector<ParamId> readers = tied_group(graph_, held);
    const auto take_term = [&](Role role, size_t index) -> Status {
      XRUN_ASSIGN(const Buffer* buffer, next(role));
      const Buffer* gradient = own(readers[index], Purpose::kGradient);
      if (buffer != (gradient != nullptr ? gradient : own(readers[index], Purpose::kTerms))) {
        return misplaced(*buffer);
      }
      Operand wanted{.role = role,
                     .access = Access::kUpdate,
                     .param = readers[index],
                     .index = static_cast<int32_t>(index),
                     .bytes = type(graph_.param_grads[readers[index]]).bytes(0, norm_rows())};
      return take(wanted);
    };
    const auto place = static_cast<size_t>(std::ranges::find(readers, held) - readers.begin());
    const bool elsewhere =
        std::ranges::any_of(readers, [&](ParamId reader) { return own(reader, Purpose::kGradient) == nullptr; });
    if (elsewhere && !brought_[{one_->stage, one_->replica}].contains(graph_.param(held).tied)) {
      return at_fault("adds gradients of `{}` that no exchange brings", graph_.param(held).name);
    }
    XRUN_TRY(take_term(Role::kSum, place));
    for (size_t i = 0; i < readers.size(); ++i) {
      if (i != place) {
        XRUN_TRY(take_term(Role::kTerm, i));
      }
    }
  }
  return {};
}

Status UpdateOperands::check_norms(ParamId param) {
  XRUN_ASSIGN(const Buffer* norms, next(Role::kNorms));
  if (norms->purpose != Purpose::kNorms) {
    return misplaced(*norms);
  }
  if (compressed(param) && program_.sender_replicas > 1 && rounds_summed(param) == 0) {
    return at_fault("counts the gradient of `{}` before the replicas of its node have summed it",
                    graph_.param(param).name);
  }
  const NormLayout layout = norm_layout(module_, program_.senders());
  return take({.role = Role::kNorms,
               .access = Access::kWrite,
               .param = param,
               .offset = layout.offset(param, compressed(param) ? owners_.sender_of(one_->replica) : 0),
               .bytes = layout.bytes(param)});
}

// Takes the operand for the sums of squares of all gradients.
Status UpdateOperands::take_all_norms() {
  XRUN_ASSIGN(const Buffer* norms, next(Role::kNorms));
  return norms->purpose == Purpose::kNorms ? take_whole(Role::kNorms, Access::kRead, norms) : misplaced(*norms);
}

Status UpdateOperands::check_update() {
  const std::set<ParamId> changed = held(gradients_[static_cast<size_t>(one_->stage)], one_->replica, one_->device);
  for (const NodeId id : program_.stages[static_cast<size_t>(one_->stage)].forward) {
    if (graph_.node(id).op->folds_states) {
      XRUN_TRY(check_fold(id));
    }
  }
  for (const Buffer* prepared : prepared_[one_->replica]) {
    if (prepared->device == one_->device && changed.contains(prepared->param)) {
      XRUN_ASSIGN(const Buffer* buffer, next(Role::kPrepared));
      if (buffer != prepared) {
        return misplaced(*buffer);
      }
      XRUN_TRY(take({.role = Role::kPrepared,
                     .access = Access::kWrite,
                     .node = prepared->node,
                     .param = prepared->param,
                     .index = prepared->node_input,
                     .bytes = prepared->bytes}));
    }
  }
  if (module_.train.sums_squares() && norm_layout(module_, program_.senders()).total > 0) {
    XRUN_TRY(take_all_norms());
  }
  if (!next_is(Role::kScratch)) {
    return {};
  }
  // Kernels use the scratch memory to prepare weights. Its size is compared when the kernels are made.
  XRUN_ASSIGN(const Buffer* scratch, next(Role::kScratch));
  const Bytes slice = scratch->bytes / program_.threads[static_cast<size_t>(one_->device)];
  if (scratch->purpose != Purpose::kScratch) {
    return misplaced(*scratch);
  }
  return take({.role = Role::kScratch, .access = Access::kWrite, .by = By::kWorker, .bytes = slice, .step = slice});
}

// Checks the operands with which an update folds batch statistics of all row blocks into running states. An
// all-gather must have collected the statistics if there are several replicas.
Status UpdateOperands::check_fold(NodeId id) {
  const Node& node = graph_.node(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ParamId param = graph_.value(node.inputs[i]).param;
    if (!param.valid() || graph_.param(param).trained) {
      continue;
    }
    XRUN_ASSIGN(const Buffer* state, next(Role::kRunningState));
    if (state != own(param, Purpose::kState)) {
      return misplaced(*state);
    }
    XRUN_TRY(take({.role = Role::kRunningState,
                   .access = Access::kUpdate,
                   .node = id,
                   .param = param,
                   .index = static_cast<int32_t>(i),
                   .bytes = state->bytes}));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    if (!type(value).per_block()) {
      continue;
    }
    XRUN_ASSIGN(const Buffer* all, next(Role::kStatistics));
    const bool gathered = all->purpose == Purpose::kGathered && all->replica < 0 && all->head < 0;
    const bool own = all->purpose == Purpose::kActivation && all->micro_batch < 0;
    if (all->value != value || !(program_.replicas > 1 ? gathered : own)) {
      return misplaced(*all);
    }
    XRUN_TRY(take({.role = Role::kStatistics,
                   .access = Access::kRead,
                   .node = id,
                   .index = static_cast<int32_t>(i),
                   .bytes = type(value).bytes(program_.batch, norm_rows())}));
  }
  return {};
}

}  // namespace xrun::planner
