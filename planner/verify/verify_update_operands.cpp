// Checks the operands of the instructions at the end of a step. Every replica of a stage must fold the partials of its
// gradients, sum or compress them, count their squares if a clip needs these, and update its weights, in this order.
// The instructions are processed in the order of the program. For each (stage, replica) the check records the finished
// operations and the terms that have arrived; an instruction that comes too early, or twice, is rejected. For each
// instruction the operands are derived and compared with those in the program. At the end, every gradient must have
// been summed and applied.
// Tests: tests/planner/verify/verify_operands_test.cpp, tests/planner/verify/verify_compression_test.cpp
#include <algorithm>
#include <map>
#include <tuple>

#include "planner/verify/update_operands.h"

namespace xrun::planner {

UpdateOperands::UpdateOperands(const Program& program, const Module& module)
    : OperandView(program, module), states_(static_cast<int>(optimizer_states(module).size())) {
  for (const Stage& stage : program.stages) {
    gradients_.push_back(gradients_of(stage));
    compressed_.push_back(gradients_of(stage, true));
    whole_.push_back(gradients_of(stage, false));
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.purpose == Purpose::kPrepared) {
      prepared_[buffer.replica].push_back(&buffer);
    }
  }
  for (auto& [replica, buffers] : prepared_) {
    std::sort(buffers.begin(), buffers.end(), [](const Buffer* a, const Buffer* b) {
      return std::tuple(a->node, a->node_input) < std::tuple(b->node, b->node_input);
    });
  }
}

Status UpdateOperands::run() {
  for (const Instruction& one : program_.instructions) {
    begin(one);
    if (one.kind == Kind::kFoldPartials || one.kind == Kind::kCompress || one.kind == Kind::kNorm ||
        one.kind == Kind::kUpdate || one.kind == Kind::kSumReplicas || one.kind == Kind::kSumTied) {
      XRUN_TRY(check());
    } else if (one.kind == Kind::kAllGather && one.head < 0 && !one.operands.empty() && on_its_device()) {
      XRUN_TRY(note_gather());
    } else if (one.kind == Kind::kReduceScatter && one.head < 0) {
      XRUN_TRY(note_terms());
    } else if (one.kind == Kind::kBackward) {
      XRUN_TRY(check_backward());
    }
  }
  return check_complete();
}

// Checks that a backward pass adds to no gradient that is complete.
Status UpdateOperands::check_backward() {
  const auto ended = ended_.find({one_->stage, one_->replica});
  for (const Operand& operand : one_->operands) {
    const Buffer& buffer = program_.buffer(operand.buffer);
    if (ended != ended_.end() && buffer.purpose == Purpose::kGradient && ended->second.contains(buffer.param)) {
      return at_fault("adds to gradients that were summed or sent already");
    }
  }
  return {};
}

// Whether a gradient has been summed over partials; whether all gradients of the instruction's stage have been; and
// whether these have also been summed over all replicas. The last two hold for a stage without gradients, which only
// updates running statistics.
bool UpdateOperands::is_folded(ParamId param) {
  return program_.partials == program_.replicas || folded_[{one_->stage, one_->replica}].contains(param);
}

bool UpdateOperands::is_folded() {
  return std::ranges::all_of(gradients_[static_cast<size_t>(one_->stage)],
                             [&](ParamId param) { return is_folded(param); });
}

bool UpdateOperands::is_summed() {
  return is_folded() && (program_.replicas == 1 ||
                         gathered_[{one_->stage, one_->replica}] == whole_[static_cast<size_t>(one_->stage)]);
}

// Records that an exchange has delivered the terms of a round. A replica exchanges the terms of each round once, after
// it has summed the terms of the previous round, since it sends the result.
Status UpdateOperands::note_terms() {
  if (!on_its_device()) {
    return at_fault("is of no stage, or elsewhere");
  }
  const auto& devices = program_.stages[static_cast<size_t>(one_->stage)].devices;
  std::set<int> first;  // devices of the members of round 0
  for (const int replica : sums_.members(0, one_->replica)) {
    first.insert(devices[static_cast<size_t>(replica)]);
  }
  std::map<ParamId, int>& received = received_[{one_->stage, one_->replica}];
  std::map<ParamId, int> now;
  for (const Operand& operand : one_->operands) {
    const int round = first.contains(operand.index) ? 0 : 1;
    const ParamId param = program_.buffer(operand.buffer).param;
    if (!is_folded(param)) {
      return at_fault("sends slices of gradients before their partials are summed");
    }
    ended_[{one_->stage, one_->replica}].insert(param);
    const int summed = rounds_summed(param);
    if (summed < round) {
      return at_fault("exchanges slices of gradients before those of the round before are summed");
    }
    if (summed > round || received[param] > round) {
      return at_fault("exchanges slices of gradients again");
    }
    if (operand.role == Role::kReceived) {
      now[param] = round + 1;
    }
  }
  for (const auto& [param, rounds] : now) {
    received[param] = rounds;
  }
  return {};
}

// Records the data that an all-gather has delivered: pairs or summed slices of other replicas, or gradients of a tied
// weight from other stages.
Status UpdateOperands::note_gather() {
  const Buffer& first = program_.buffer(one_->operands[0].buffer);
  const std::pair place{one_->stage, one_->replica};
  const auto& devices = program_.stages[static_cast<size_t>(one_->stage)].devices;
  if (first.purpose == Purpose::kPairs) {
    gathers_.insert(place);
  } else if (first.purpose != Purpose::kGradient && first.purpose != Purpose::kTerms) {
    return {};
  } else if (std::ranges::count(devices, one_->operands[0].index) > 0) {
    for (const Operand& operand : one_->operands) {
      const ParamId param = program_.buffer(operand.buffer).param;
      if (operand.role == Role::kSent && rounds_summed(param) < sums_.rounds()) {
        return at_fault("sends slices of gradients before they are summed");
      }
      gathered_[place].insert(param);
    }
  } else {
    if (!is_summed() || !first.param.valid()) {
      return at_fault("exchanges gradients of a tied weight before they are summed over partials and replicas");
    }
    brought_[place].insert(graph_.param(first.param).tied);
  }
  return {};
}

Status UpdateOperands::check() {
  if (!on_its_device()) {
    return at_fault("is of no stage, or elsewhere");
  }
  const int rank = rank_of_instruction();
  const int least = one_->kind == Kind::kFoldPartials  ? (is_folded() ? kFold : kTiedSums)
                    : one_->kind == Kind::kSumReplicas ? rank + 1
                                                       : rank;
  if (!done().empty() && *done().rbegin() >= least) {
    return at_fault("comes again, or after what it has to come before");
  }
  if (rank > kSums && !is_summed()) {
    return at_fault("works on gradients that are not summed over partials and replicas");
  }
  done().insert(rank);
  left_ = gradients_named();
  if (one_->kind == Kind::kCompress && left_.empty()) {
    return at_fault("compresses gradients that its replica does not own");
  }
  while (next_is(Role::kGradient)) {
    XRUN_TRY(check_gradient());
  }
  if (one_->kind == Kind::kSumReplicas) {
    XRUN_TRY(check_sums((rank == kSenderSums ? compressed_ : whole_)[static_cast<size_t>(one_->stage)]));
  }
  if (one_->kind == Kind::kSumTied) {
    XRUN_TRY(check_tied_sums());
  }
  const bool some = one_->kind == Kind::kFoldPartials && !one_->operands.empty();  // folds may run by bucket
  if (!left_.empty() && !some) {
    return at_fault("leaves out the gradient of `{}`", graph_.param(*left_.begin()).name);
  }
  if (one_->kind == Kind::kUpdate) {
    XRUN_TRY(check_update());
  } else if (one_->kind == Kind::kCompress && rank == kLateCompress) {
    XRUN_TRY(take_all_norms());
  }
  return end();
}

int UpdateOperands::rank_of_instruction() const {
  switch (one_->kind) {
    case Kind::kFoldPartials:
      return kFold;
    case Kind::kSumReplicas:
      return next_is(Role::kSum) && compressed(one_->operands[at_].param) ? kSenderSums : kSums;
    case Kind::kCompress:
      return rank_of_compression();
    case Kind::kSumTied:
      return kTiedSums;
    case Kind::kNorm:
      return kNorm;
    default:
      return kUpdate;
  }
}

// Returns the weights whose gradients must be operands of the instruction.
std::set<ParamId> UpdateOperands::gradients_named() const {
  const auto stage = static_cast<size_t>(one_->stage);
  std::set<ParamId> named = one_->kind == Kind::kCompress      ? compressed_[stage]
                            : one_->kind == Kind::kNorm        ? whole_[stage]
                            : one_->kind == Kind::kSumReplicas ? std::set<ParamId>()  // buckets differ: check_sums
                                                               : gradients_[stage];
  if (one_->kind == Kind::kCompress) {
    std::erase_if(named, [&](ParamId param) { return !owners_.owns(param, one_->replica); });
  } else if (one_->kind == Kind::kNorm) {
    std::erase_if(named, [&](ParamId param) { return graph_.is_tied_copy(param); });
    for (const ParamId param : compressed_[stage]) {
      if (module_.train.loss_scale.is_on() && owners_.owns(param, one_->replica)) {
        named.insert(param);
      }
    }
  } else if (one_->kind == Kind::kUpdate || one_->kind == Kind::kSumTied) {
    named = held(named, one_->replica, one_->device);
  }
  if (one_->kind == Kind::kSumTied) {
    std::erase_if(named, [&](ParamId param) { return !graph_.param(param).tied.valid(); });
  }
  return named;
}

// Whether a replica has summed all gradients of the stage for which it owns elements.
bool UpdateOperands::sums_slices(const Stage& stage, int replica) {
  std::map<ParamId, int>& rounds = summed_[{stage.index, replica}];
  return std::ranges::all_of(whole_[static_cast<size_t>(stage.index)], [&](ParamId param) {
    return program_.replicas == 1 || summed_slice(param, replica).bytes == 0 || rounds[param] == sums_.rounds();
  });
}

bool UpdateOperands::compresses(const Stage& stage, int replica) const {
  return std::ranges::any_of(compressed_[static_cast<size_t>(stage.index)],
                             [&](ParamId param) { return owners_.owns(param, replica); });
}

bool UpdateOperands::has_tied(const Stage& stage) const {
  return std::ranges::any_of(gradients_[static_cast<size_t>(stage.index)],
                             [&](ParamId param) { return graph_.param(param).tied.valid(); });
}

// Whether the replica of the stage sums the squares of any gradient.
bool UpdateOperands::has_counted(const Stage& stage, int replica) const {
  return (module_.train.loss_scale.is_on() && compresses(stage, replica)) ||
         std::ranges::any_of(whole_[static_cast<size_t>(stage.index)],
                             [&](ParamId param) { return !graph_.is_tied_copy(param); });
}

// Checks that, for every replica of every stage with gradients, all partials and replicas have been summed, the squares
// of the gradients have been summed if the step needs this, and the weights have been updated.
Status UpdateOperands::check_complete() {
  const bool summed = module_.train.sums_squares();
  for (const Stage& stage : program_.stages) {
    for (int replica = 0; program_.training && replica < program_.replicas; ++replica) {
      const size_t wanted = gradients_[static_cast<size_t>(stage.index)].empty()
                                ? 0
                                : 1U + (program_.partials > program_.replicas ? 1 : 0) +
                                      (compresses(stage, replica) ? 1 : 0) + (has_tied(stage) ? 1 : 0) +
                                      (summed && has_counted(stage, replica) ? 1 : 0);
      std::set<int>& steps = done_[{stage.index, replica}];
      steps.erase(kSenderSums);
      steps.erase(kSums);
      if (steps.size() < wanted || !sums_slices(stage, replica)) {
        return wrong("the gradients of stage {} are not summed and applied on replica {}", stage.index, replica);
      }
    }
  }
  return {};
}

Status verify_update_operands(const Program& program, const Module& module) {
  return UpdateOperands(program, module).run();
}

}  // namespace xrun::planner
