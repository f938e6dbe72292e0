// Checks the operands of the instructions at the end of a step. Every replica of a stage must fold the partials of its
// gradients, sum or compress them, count their squares if a clip needs these, and update its weights, in this order.
// The instructions are processed in the order of the program. For each (stage, replica) the check remembers what has
// been done and which terms have arrived; an instruction that comes too early, or twice, is rejected. For each
// instruction the operands are derived and compared with those in the program. At the end, every gradient must have
// been summed and applied.
// Tests: tests/planner/verify/verify_operands_test.cpp, tests/planner/verify/verify_compression_test.cpp
#include <algorithm>
#include <map>

#include "graph/layouts/compression.h"
#include "graph/passes/untie.h"
#include "planner/verify/operand_view.h"

namespace xrun::planner {
namespace {

class UpdateOperands : OperandView {
 public:
  UpdateOperands(const Program& program, const Module& module)
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

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      if (one.kind == Kind::kFoldPartials || one.kind == Kind::kCompress || one.kind == Kind::kNorm ||
          one.kind == Kind::kUpdate || one.kind == Kind::kSumReplicas || one.kind == Kind::kSumTied) {
        XRUN_TRY(check());
      } else if (one.kind == Kind::kAllGather && one.head < 0 && !one.operands.empty() && on_its_device()) {
        XRUN_TRY(note_gather());
      } else if (one.kind == Kind::kReduceScatter && one.head < 0) {
        if (!is_folded()) {
          return at_fault("sends slices of gradients before their partials are summed");
        }
        XRUN_TRY(note_terms());
        ended_.insert({one.stage, one.replica});
      } else if (one.kind == Kind::kBackward && ended_.contains({one.stage, one.replica})) {
        return at_fault("adds to gradients that were summed or sent already");
      }
    }
    return check_complete();
  }

 private:
  std::set<int>& done() { return done_[{one_->stage, one_->replica}]; }

  // Whether the gradients of the instruction's stage have been summed over partials, and (the next function) over all
  // replicas as well. This holds for a stage without gradients, which only updates running statistics.
  bool is_folded() {
    return gradients_[static_cast<size_t>(one_->stage)].empty() || program_.partials == program_.replicas ||
           done().contains(kFold);
  }
  bool is_summed() {
    return is_folded() && (program_.replicas == 1 ||
                           gathered_[{one_->stage, one_->replica}] == whole_[static_cast<size_t>(one_->stage)]);
  }

  // Returns the number of rounds in which the instruction's replica has summed its slice of a gradient.
  int rounds_summed(ParamId param) { return summed_[{one_->stage, one_->replica}][param]; }

  // Notes that an exchange has delivered the terms of a round. A replica exchanges the terms of each round once, after
  // it has summed those of the previous round, since it sends the result.
  Status note_terms() {
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

  // Notes what an all-gather has delivered: pairs or summed slices of other replicas, or gradients of a tied weight
  // from other stages.
  Status note_gather() {
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

  Status check() {
    if (!on_its_device()) {
      return at_fault("is of no stage, or elsewhere");
    }
    const int rank = rank_of_instruction();
    if (!done().empty() && *done().rbegin() >= rank + (one_->kind == Kind::kSumReplicas ? 1 : 0)) {
      return at_fault("comes again, or after what it has to come before");
    }
    if (rank > kSums && !is_summed()) {
      return at_fault("works on gradients that are not summed over partials and replicas");
    }
    done().insert(rank);
    ended_.insert({one_->stage, one_->replica});
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
    if (!left_.empty()) {
      return at_fault("leaves out the gradient of `{}`", graph_.param(*left_.begin()).name);
    }
    if (one_->kind == Kind::kUpdate) {
      XRUN_TRY(check_update());
    }
    return end();
  }

  // The operations on the gradients of a replica of a stage, in the order in which they must run. Each runs once,
  // except sums, which run once for each bucket and round.
  enum Rank { kFold, kSenderSums, kCompress, kSums, kTiedSums, kNorm, kUpdate };
  int rank_of_instruction() const {
    switch (one_->kind) {
      case Kind::kFoldPartials:
        return kFold;
      case Kind::kSumReplicas:
        return next_is(Role::kSum) && compressed(one_->operands[at_].param) ? kSenderSums : kSums;
      case Kind::kCompress:
        return kCompress;
      case Kind::kSumTied:
        return kTiedSums;
      case Kind::kNorm:
        return kNorm;
      default:
        return kUpdate;
    }
  }

  // Returns the weights whose gradients the instruction must name.
  std::set<ParamId> gradients_named() const {
    const auto stage = static_cast<size_t>(one_->stage);
    std::set<ParamId> named = one_->kind == Kind::kCompress      ? compressed_[stage]
                              : one_->kind == Kind::kNorm        ? whole_[stage]
                              : one_->kind == Kind::kSumReplicas ? std::set<ParamId>()  // buckets differ: check_sums
                                                                 : gradients_[stage];
    if (one_->kind == Kind::kCompress) {
      std::erase_if(named, [&](ParamId param) { return !owners_.owns(param, one_->replica); });
    } else if (one_->kind == Kind::kNorm) {
      std::erase_if(named, [&](ParamId param) { return graph_.is_tied_copy(param); });
    } else if (one_->kind == Kind::kUpdate || one_->kind == Kind::kSumTied) {
      named = held(named, one_->replica, one_->device);
    }
    if (one_->kind == Kind::kSumTied) {
      std::erase_if(named, [&](ParamId param) { return !graph_.param(param).tied.valid(); });
    }
    return named;
  }

  Status check_gradient() {
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
    if (one_->kind == Kind::kNorm) {
      return check_norms(param);
    }
    if (one_->kind == Kind::kCompress) {
      return check_compress(param);
    }
    if (one_->kind != Kind::kUpdate) {
      return {};
    }
    XRUN_TRY(take_whole(Role::kWeight, Access::kUpdate, own(param, Purpose::kWeight), param));
    if (sums_pairs) {
      if ((owners_.owns(param, one_->replica) && !done().contains(kCompress)) ||
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
  Status check_compress(ParamId param) {
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
  Status check_sums(const std::set<ParamId>& params) {
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

  Status check_sum(ParamId param, int round) {
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

  Status take_term(Role role, ParamId param, int replica, Slice slice) {
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
  Status check_tied_sums() {
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

  Status check_norms(ParamId param) {
    XRUN_ASSIGN(const Buffer* norms, next(Role::kNorms));
    if (norms->purpose != Purpose::kNorms) {
      return misplaced(*norms);
    }
    const NormLayout layout = norm_layout(module_);
    constexpr auto kSum = static_cast<Bytes>(sizeof(double));
    return take({.role = Role::kNorms,
                 .access = Access::kWrite,
                 .param = param,
                 .offset = layout.first[static_cast<size_t>(param.index)] * kSum,
                 .bytes = layout.count[static_cast<size_t>(param.index)] * kSum});
  }

  Status check_update() {
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
    if (module_.train.clip.kind == ClipSpec::kNorm && norm_layout(module_).total > 0) {
      XRUN_ASSIGN(const Buffer* norms, next(Role::kNorms));
      XRUN_TRY(norms->purpose == Purpose::kNorms ? take_whole(Role::kNorms, Access::kRead, norms) : misplaced(*norms));
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
  Status check_fold(NodeId id) {
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

  // Whether a replica has summed all gradients of the stage for which it owns elements.
  bool sums_slices(const Stage& stage, int replica) {
    std::map<ParamId, int>& rounds = summed_[{stage.index, replica}];
    return std::ranges::all_of(whole_[static_cast<size_t>(stage.index)], [&](ParamId param) {
      return program_.replicas == 1 || summed_slice(param, replica).bytes == 0 || rounds[param] == sums_.rounds();
    });
  }

  bool compresses(const Stage& stage, int replica) const {
    return std::ranges::any_of(compressed_[static_cast<size_t>(stage.index)],
                               [&](ParamId param) { return owners_.owns(param, replica); });
  }
  bool has_tied(const Stage& stage) const {
    return std::ranges::any_of(gradients_[static_cast<size_t>(stage.index)],
                               [&](ParamId param) { return graph_.param(param).tied.valid(); });
  }
  // Whether the clip counts gradients of the stage.
  bool has_counted(const Stage& stage) const {
    return std::ranges::any_of(whole_[static_cast<size_t>(stage.index)],
                               [&](ParamId param) { return !graph_.is_tied_copy(param); });
  }

  // Checks that, for every replica of every stage with gradients, all partials and replicas have been summed, the clip
  // has counted the gradients, and the weights have been updated.
  Status check_complete() {
    const bool clipped = module_.train.clip.kind == ClipSpec::kNorm;
    for (const Stage& stage : program_.stages) {
      for (int replica = 0; program_.training && replica < program_.replicas; ++replica) {
        const size_t wanted = gradients_[static_cast<size_t>(stage.index)].empty()
                                  ? 0
                                  : 1U + (program_.partials > program_.replicas ? 1 : 0) +
                                        (compresses(stage, replica) ? 1 : 0) + (has_tied(stage) ? 1 : 0) +
                                        (clipped && has_counted(stage) ? 1 : 0);
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

  int states_;                                 // number of optimizer states
  std::vector<std::set<ParamId>> gradients_;   // index: stage
  std::vector<std::set<ParamId>> compressed_;  // index: stage; the gradients that are compressed
  std::vector<std::set<ParamId>> whole_;       // index: stage; the gradients that are sent whole
  std::set<std::pair<int, int>> gathers_;      // (stage, replica): the pairs of all senders have arrived
  std::set<std::pair<int, int>> ended_;        // (stage, replica): its gradients are complete
  // Key: (stage, replica). For each gradient, the number of rounds in which the replica has received its terms and in
  // which it has summed them; and the gradients whose sums have arrived.
  std::map<std::pair<int, int>, std::map<ParamId, int>> received_;
  std::map<std::pair<int, int>, std::map<ParamId, int>> summed_;
  std::map<std::pair<int, int>, std::set<ParamId>> gathered_;
  std::map<std::pair<int, int>, std::set<ParamId>> brought_;  // tied weights with all other readers' gradients
  std::map<int, std::vector<const Buffer*>> prepared_;        // key: replica; in the order of their nodes
  std::map<std::pair<int, int>, std::set<int>> done_;         // key: (stage, replica); ranks of the finished operations
  std::set<ParamId> left_;                                    // gradients that the instruction has not named yet
};

}  // namespace

Status verify_update_operands(const Program& program, const Module& module) {
  return UpdateOperands(program, module).run();
}

}  // namespace xrun::planner
