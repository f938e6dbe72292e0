// The rules for the instructions at the end of a step: sums and compression of gradients, sums of squares, updates.
// Tests: tests/planner/verify/symbolic_run_test.cpp
#include <algorithm>
#include <iterator>

#include "graph/layouts/compression.h"
#include "graph/passes/untie.h"
#include "planner/verify/symbolic_run.h"

namespace xrun::planner {

Status SymbolicRun::end_of_step() {
  const bool on_stage = one_->stage >= 0 && one_->replica >= 0;
  if (!on_stage ||
      program_.stages[static_cast<size_t>(one_->stage)].devices[static_cast<size_t>(one_->replica)] != one_->device) {
    return at_fault("is of no stage, or elsewhere");
  }
  switch (one_->kind) {
    case Kind::kFoldPartials:
      return fold_partials();
    case Kind::kSumReplicas:
      return sum_replicas();
    case Kind::kSumTied:
      return sum_readers();
    case Kind::kCompress:
      return compress();
    case Kind::kNorm:
      return count_squares();
    default:
      return update();
  }
}

Content SymbolicRun::complete_gradient(ParamId param) const {
  if (graph_.param(param).tied.valid()) {
    return {.what = What::kTiedSum, .id = weight_of(param).index};
  }
  if (!owners_.compresses(param)) {
    return sum_of(param, 0, program_.replicas);
  }
  const int first = owners_.sender_of(one_->replica) * program_.sender_replicas;
  return sum_of(param, first, first + program_.sender_replicas);
}

// Takes the next operand, a gradient, and returns its parameter. The instruction works on partial 0, except
// kFoldPartials. A read needs the complete gradient; a write uses the memory of the gradient for other things.
Result<ParamId> SymbolicRun::take_gradient(Access access) {
  const ParamId param = next_is(Role::kGradient) ? one_->operands[at_].param : ParamId();
  XRUN_ASSIGN(const Operand* has,
              next({.role = Role::kGradient, .access = access, .by = By::kPartial, .param = param}));
  if (!has_gradient(param) || has->bytes != gradient_bytes(param) ||
      has->step != program_.buffer(has->buffer).bytes / program_.partials_of_replica()) {
    return at_fault("has a wrong operand {} ({})", at_ - 1, name_of(has->role));
  }
  XRUN_TRY(check_aligned(*has, sizeof(float)));
  if (access == Access::kUpdate) {
    return param;
  }
  XRUN_TRY(touch(*has, has->offset, has->bytes, access == Access::kWrite));
  if (access == Access::kRead) {
    XRUN_TRY(need(has->buffer, has->offset, has->bytes, complete_gradient(param), 0));
  } else {
    put(has->buffer, has->offset, has->bytes, {}, 0);
  }
  return param;
}

// Sums the partials of the replica into partial 0. The sum uses the other partials as working memory.
Status SymbolicRun::fold_partials() {
  while (next_is(Role::kGradient)) {
    const Operand& has = one_->operands[at_];
    XRUN_ASSIGN(const ParamId param, take_gradient(Access::kUpdate));
    const int64_t partials = program_.partials_of_replica();
    for (int64_t partial = 0; partial < partials; ++partial) {
      const Bytes place = has.offset + partial * has.step;
      const Content complete{
          .what = What::kPartial, .id = param.index, .first = static_cast<int32_t>(partials * one_->replica + partial)};
      XRUN_TRY(touch(has, place, has.bytes, true));
      XRUN_TRY(need(has.buffer, place, has.bytes, complete, 0));
      put(has.buffer, place, has.bytes, {}, 0);
    }
    put(has.buffer, has.offset, has.bytes, sum_of(param, one_->replica, one_->replica + 1), 0);
  }
  return end();
}

// Sums slices of gradients: the slice of the replica itself, and the same slice of other replicas. The kernel adds the
// terms in the order of their replicas in a binary tree, so their sums must be of neighbouring ranges of replicas, of
// equal length, in this order. It uses the terms as working memory.
Status SymbolicRun::sum_replicas() {
  while (next_is(Role::kSum)) {
    const ParamId param = one_->operands[at_].param;
    if (!has_gradient(param)) {
      return at_fault("sums the slices of no gradient");
    }
    std::map<int, const Operand*> terms;  // key: replica
    XRUN_ASSIGN(const Operand* own, next({.role = Role::kSum, .access = Access::kUpdate, .param = param}));
    XRUN_TRY(check_aligned(*own, sizeof(float)));
    terms[one_->replica] = own;
    const Contents::Piece mine = piece_at(own->buffer, own->offset, own->bytes);
    while (next_is(Role::kTerm)) {
      const int replica = one_->operands[at_].index;
      XRUN_ASSIGN(const Operand* term,
                  next({.role = Role::kTerm, .access = Access::kUpdate, .param = param, .index = replica}));
      XRUN_TRY(check_aligned(*term, sizeof(float)));
      if (!terms.emplace(replica, term).second || term->bytes != own->bytes) {
        return at_fault("has a wrong operand {} ({})", at_ - 1, name_of(term->role));
      }
    }
    if (own->bytes % static_cast<Bytes>(sizeof(float)) != 0 || mine.origin % static_cast<Bytes>(sizeof(float)) != 0) {
      return at_fault("sums a part of a number of `{}`", graph_.param(param).name);
    }
    if (mine.content.what != What::kSum || mine.content.id != param.index) {
      return lacks(own->buffer, {own->offset, own->offset + own->bytes, mine.content, 0},
                   sum_of(param, one_->replica, one_->replica + 1));
    }
    const int length = mine.content.last - mine.content.first;
    const auto before = static_cast<int>(std::distance(terms.begin(), terms.find(one_->replica)));
    const int first = mine.content.first - before * length;
    int next_first = first;
    for (const auto& [replica, term] : terms) {
      if (!inside(replica, next_first, next_first + length)) {
        return at_fault("has the term of replica {} where replicas {} to {} are next", replica, next_first,
                        next_first + length - 1);
      }
      XRUN_TRY(touch(*term, term->offset, term->bytes, true));
      XRUN_TRY(
          need(term->buffer, term->offset, term->bytes, sum_of(param, next_first, next_first + length), mine.origin));
      put(term->buffer, term->offset, term->bytes, {}, 0);
      next_first += length;
    }
    put(own->buffer, own->offset, own->bytes, sum_of(param, first, next_first), mine.origin);
  }
  return end();
}

// Adds the gradients of all readers of tied weights, in the order of the readers.
Status SymbolicRun::sum_readers() {
  while (next_is(Role::kSum)) {
    const ParamId held = one_->operands[at_].param;
    const std::vector<ParamId> readers = held.valid() ? tied_group(graph_, held) : std::vector<ParamId>();
    const auto own = std::ranges::find(readers, held);
    if (own == readers.end()) {
      return at_fault("adds the gradients of a weight that is not tied");
    }
    BufferId into;
    Bytes place = 0;
    const auto take_reader = [&](Role role, size_t index) -> Status {
      const ParamId reader = readers[index];
      XRUN_ASSIGN(
          const Operand* has,
          next({.role = role, .access = Access::kUpdate, .param = reader, .index = static_cast<int32_t>(index)}));
      XRUN_TRY(check_aligned(*has, sizeof(float)));
      if (!has_gradient(reader) || has->bytes != gradient_bytes(reader)) {
        return at_fault("has a wrong operand {} ({})", at_ - 1, name_of(role));
      }
      XRUN_TRY(touch(*has, has->offset, has->bytes, true));
      XRUN_TRY(need(has->buffer, has->offset, has->bytes, sum_of(reader, 0, program_.replicas), 0));
      put(has->buffer, has->offset, has->bytes, {}, 0);
      if (role == Role::kSum) {
        into = has->buffer;
        place = has->offset;
      }
      return {};
    };
    const auto first = static_cast<size_t>(own - readers.begin());
    XRUN_TRY(take_reader(Role::kSum, first));
    for (size_t i = 0; i < readers.size(); ++i) {
      XRUN_TRY(i == first ? Status() : take_reader(Role::kTerm, i));
    }
    put(into, place, gradient_bytes(held), complete_gradient(held), 0);
  }
  return end();
}

// Takes the largest elements of the sender's gradients out of their velocities and residuals.
Status SymbolicRun::compress() {
  while (next_is(Role::kGradient)) {
    XRUN_ASSIGN(const ParamId param, take_gradient(Access::kRead));
    if (!owners_.compresses(param)) {
      return at_fault("compresses the gradient of `{}`, which is sent whole", graph_.param(param).name);
    }
    const int sender = owners_.sender_of(one_->replica);
    XRUN_TRY(take_kept({.role = Role::kWeight, .access = Access::kRead, .param = param},
                       {.what = What::kKept, .purpose = Purpose::kWeight, .id = param.index}));
    for (int state = 0; state < static_cast<int>(std::size(kResidualStates)); ++state) {
      XRUN_TRY(take_kept(
          {.role = Role::kState, .access = Access::kUpdate, .param = param, .index = state},
          {.what = What::kKept, .purpose = Purpose::kResidual, .id = param.index, .first = sender, .last = state}));
    }
    const Bytes bytes = pairs_bytes(module_, param);
    XRUN_TRY(take({.role = Role::kPairs, .access = Access::kWrite, .param = param},
                  {.what = What::kPairs, .id = param.index}, Segment{sender * bytes, bytes}));
  }
  if (module_.train.loss_scale.is_on()) {
    XRUN_TRY(take_all_norms());
  }
  return end();
}

Status SymbolicRun::count_squares() {
  while (next_is(Role::kGradient)) {
    XRUN_ASSIGN(const ParamId param, take_gradient(Access::kRead));
    if (!norms_.has(param)) {
      return at_fault("counts the gradient of `{}`, which is counted elsewhere or not at all",
                      graph_.param(param).name);
    }
    const int sender = owners_.compresses(param) ? owners_.sender_of(one_->replica) : 0;
    XRUN_TRY(take({.role = Role::kNorms, .access = Access::kWrite, .param = param}, {.what = What::kNorms},
                  Segment{norms_.offset(param, sender), norms_.bytes(param)}));
  }
  return end();
}

Status SymbolicRun::update() {
  std::set<ParamId> changed;
  while (next_is(Role::kGradient)) {
    XRUN_TRY(update_weight(changed));
  }
  while (next_is(Role::kRunningState) || next_is(Role::kStatistics)) {
    XRUN_TRY(fold_states());
  }
  while (next_is(Role::kPrepared)) {
    XRUN_TRY(prepare(changed));
  }
  if (module_.train.sums_squares() && norms_.total > 0) {
    XRUN_TRY(take_all_norms());
  }
  if (next_is(Role::kScratch)) {
    XRUN_TRY(take_scratch(0, true));
  }
  return end();
}

// Updates a weight from its gradient or, if the gradient is compressed, from the pairs of all senders.
Status SymbolicRun::update_weight(std::set<ParamId>& changed) {
  const ParamId named = one_->operands[at_].param;
  const bool sums_pairs = owners_.compresses(named);
  XRUN_ASSIGN(const ParamId param, take_gradient(sums_pairs ? Access::kWrite : Access::kRead));
  changed.insert(param);
  const int32_t weight = weight_of(param).index;
  XRUN_TRY(take_kept({.role = Role::kWeight, .access = Access::kUpdate, .param = param},
                     {.what = What::kKept, .purpose = Purpose::kWeight, .id = weight}));
  if (!sums_pairs) {
    for (int state = 0; state < states_; ++state) {
      XRUN_TRY(take_kept({.role = Role::kState, .access = Access::kUpdate, .param = param, .index = state},
                         {.what = What::kKept, .purpose = Purpose::kOptimizer, .id = weight, .last = state}));
    }
    return {};
  }
  return take({.role = Role::kPairs, .access = Access::kRead, .param = param},
              {.what = What::kPairs, .id = param.index}, Segment{0, pairs_bytes(module_, param) * program_.senders()});
}

// Computes the running states of a node from the statistics of all row blocks of the batch.
Status SymbolicRun::fold_states() {
  const NodeId id = one_->operands[at_].node;  // verify_structure has checked valid ids
  if (!id.valid() || !graph_.node(id).op->folds_states || graph_.node(id).phase != Phase::kForward) {
    return at_fault("folds the states of no operator");
  }
  const Node& node = graph_.node(id);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ParamId param = graph_.value(node.inputs[i]).param;
    if (param.valid() && !graph_.param(param).trained) {
      XRUN_TRY(take_state(id, param, i));
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId value = node.outputs[i];
    if (type(value).per_block()) {
      XRUN_TRY(take({.role = Role::kStatistics, .access = Access::kRead, .node = id, .index = static_cast<int32_t>(i)},
                    value_of(value), Segment{0, bytes_of(value, program_.batch)}));
    }
  }
  return {};
}

// Takes the state that is input `input` of a node. If several nodes fold the state, they do so in their order.
Status SymbolicRun::take_state(NodeId id, ParamId param, size_t input) {
  const std::vector<NodeId>& nodes = folded_.at(param);
  const auto at = std::ranges::find(nodes, id);
  Content content{.what = What::kKept, .purpose = Purpose::kState, .id = param.index};
  content.pass = at == nodes.begin() ? -1 : std::prev(at)->index;
  XRUN_ASSIGN(const Operand* has, next({.role = Role::kRunningState,
                                        .access = Access::kUpdate,
                                        .node = id,
                                        .param = param,
                                        .index = static_cast<int32_t>(input)}));
  const Buffer& buffer = program_.buffer(has->buffer);
  if (has->offset != 0 || has->bytes != buffer.bytes) {
    return at_fault("has a wrong operand {} ({})", at_ - 1, name_of(has->role));
  }
  XRUN_TRY(touch(*has, 0, has->bytes, true, param.index));
  XRUN_TRY(need(buffer.id, 0, has->bytes, content, 0));
  content.pass = id.index;
  content.fresh = id == nodes.back();
  put(buffer.id, 0, has->bytes, content, 0);
  return {};
}

// Prepares a weight that the instruction has changed for a node that reads it.
Status SymbolicRun::prepare(const std::set<ParamId>& changed) {
  const Operand& operand = one_->operands[at_];
  if (!operand.node.valid() || !changed.contains(operand.param)) {
    return at_fault("prepares a weight that it does not change");
  }
  return take_kept(
      {.role = Role::kPrepared,
       .access = Access::kWrite,
       .node = operand.node,
       .param = operand.param,
       .index = operand.index},
      {.what = What::kKept, .purpose = Purpose::kPrepared, .id = operand.node.index, .last = operand.index});
}

}  // namespace xrun::planner
