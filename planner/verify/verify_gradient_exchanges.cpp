// Checks the operands of the exchanges of gradients. There are four kinds: slices are sent to the replicas that sum
// them; sums are sent to all replicas; pairs of compressed gradients are sent to all replicas; gradients of a tied
// weight are sent to the other stages that read it. For each exchange, the check derives the blocks of each member and
// compares them with its operands. Exchanges may combine several gradients, in the order in which the backward pass
// makes them, or in that of the weights in plans of 0.1.0; at the end, all gradients of a stage must have been
// exchanged in all rounds.
// Tests: tests/planner/program/replica_sums_test.cpp, tests/planner/emit/buckets_test.cpp
#include <algorithm>
#include <map>

#include "graph/passes/untie.h"
#include "planner/verify/exchange_view.h"

namespace xrun::planner {
namespace {

class GradientExchanges : ExchangeView {
 public:
  GradientExchanges(const Program& program, const Module& module) : ExchangeView(program, module) {
    for (const Stage& stage : program.stages) {
      whole_.push_back(gradients_in_order(stage, false));
      compressed_.push_back(gradients_in_order(stage, true));
    }
    use_order_of_weights();
  }

  Status run() {
    for (const Instruction& one : program_.instructions) {
      begin(one);
      XRUN_TRY(check());
    }
    return check_all_slices();
  }

 private:
  // Returns the weights of gradients_of in the order in which the backward pass makes their gradients.
  std::vector<ParamId> gradients_in_order(const Stage& stage, bool compressed_ones) const {
    const std::set<ParamId> params = gradients_of(stage, compressed_ones);
    std::map<std::pair<size_t, int32_t>, ParamId> by_place;  // key: the place of the node in the pass, and its output
    std::map<NodeId, size_t> place;
    for (size_t n = 0; n < stage.backward.size(); ++n) {
      place[stage.backward[n]] = n;
    }
    for (const ParamId param : params) {
      const Value& gradient = graph_.value(graph_.param_grads[param]);
      by_place[{place.at(gradient.producer), gradient.output}] = param;
    }
    std::vector<ParamId> ordered;
    for (const auto& [at, param] : by_place) {
      ordered.push_back(param);
    }
    return ordered;
  }

  // Sorts the gradients of each stage whose exchanges have them in the order of the weights.
  void use_order_of_weights() {
    std::set<int> others;                                                     // stages with another order
    std::map<std::tuple<int, int, bool, std::set<int>>, ParamId> last_param;  // key: stage, replica, kind and members
    for (const Instruction& one : program_.instructions) {
      begin(one);
      if (exchange() != Exchange::kTerms || !check_stage().ok()) {
        continue;
      }
      for (const Operand& operand : one.operands) {
        const ParamId param = program_.buffer(operand.buffer).param;
        if (param.valid()) {
          ParamId& last = last_param[{one.stage, one.replica, compressed(param), members_.at(one.group)}];
          if (last.valid() && param < last) {
            others.insert(one.stage);
          }
          last = param;
        }
      }
    }
    for (const Stage& stage : program_.stages) {
      if (!others.contains(stage.index)) {
        std::ranges::sort(whole_[static_cast<size_t>(stage.index)]);
        std::ranges::sort(compressed_[static_cast<size_t>(stage.index)]);
      }
    }
  }

  Status check() {
    switch (exchange()) {
      case Exchange::kTerms:
        return check_terms();
      case Exchange::kSums:
        return check_sums();
      case Exchange::kPairs:
        return check_pairs();
      case Exchange::kReaders:
        return check_readers();
      default:
        return {};
    }
  }

  // Checks an exchange that sends gradients to the replicas that sum them: gradients to be compressed are sent whole to
  // their owners; others are sent in slices, in the round that has the members of the group.
  Status check_terms() {
    XRUN_TRY(check_stage());
    const ParamId first = one_->operands.empty() ? ParamId() : program_.buffer(one_->operands[0].buffer).param;
    if (first.valid() && compressed(first)) {
      std::set<int> devices;
      for (const int replica : owners_.sums(first).members(0, one_->replica)) {
        devices.insert(device_of_replica(replica));
      }
      XRUN_TRY(check_members(devices));
      return check_slices(kOfSender);
    }
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

  // Checks an exchange that sends the sums of slices to all replicas.
  Status check_sums() {
    XRUN_TRY(check_replicas());
    return check_slices(sums_.rounds());
  }

  // Checks the slices of an exchange. They belong to a range of consecutive gradients, which is equal for all members.
  // In each round, the exchanges of a stage together have all weights, one range after the other; so do the exchanges
  // of the sums after the last round.
  Status check_slices(int round) {
    const std::vector<ParamId>& all = exchanged(one_->stage, round);
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

  Status check_terms_of(ParamId param, int exchange_round) {
    const int round = std::max(exchange_round, 0);
    Bytes place = 0;
    const Slice own = slice_of(param, round, one_->replica);
    for (const int other : sums_of(param).members(round, one_->replica)) {
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

  // Takes the next operand, a slice of the gradient itself; a slice without elements is not sent and has no operand.
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

  // Checks that in each round all gradients of a stage have been sent to the replicas that sum them, and the sums to
  // all replicas. A small gradient may have no elements for some of the members, which then exchange nothing.
  Status check_all_slices() {
    for (const Stage& stage : program_.stages) {
      for (int replica = 0; program_.replicas > 1 && replica < program_.replicas; ++replica) {
        for (int round = program_.sender_replicas > 1 ? kOfSender : 0; round <= sums_.rounds(); ++round) {
          const std::vector<ParamId>& all = exchanged(stage.index, round);
          const auto left = std::ranges::subrange(all.begin() + sliced_[{stage.index, replica, round}], all.end());
          if (std::ranges::any_of(left, [&](ParamId param) { return exchanges(param, round, replica); })) {
            return wrong("replica {} does not exchange all gradients of stage {}", replica, stage.index);
          }
        }
      }
    }
    return {};
  }

  // Whether the slice that the members of a replica's sum divide in a round has any elements.
  bool exchanges(ParamId param, int round, int replica) const {
    return round == kOfSender || round == sums_.rounds() || sums_.shared(elements_of(param), round, replica).bytes > 0;
  }

  // Returns the weights of a stage whose gradients are exchanged in a round.
  const std::vector<ParamId>& exchanged(int stage, int round) const {
    return (round == kOfSender ? compressed_ : whole_)[static_cast<size_t>(stage)];
  }

  // Checks an exchange of pairs, which is in place: a replica sends the pairs of the gradients that it owns to all
  // other replicas. The order of the weights is the same for all members.
  Status check_pairs() {
    XRUN_TRY(check_replicas());
    for (const ParamId param : gradients_of(program_.stages[static_cast<size_t>(one_->stage)], true)) {
      const Bytes bytes = pairs_bytes(module_, param);
      for (int other = 0; other < program_.replicas; ++other) {
        for (const Role role : {Role::kSent, Role::kReceived}) {
          const int owner = role == Role::kSent ? one_->replica : other;
          if (other == one_->replica || !owners_.owns(param, owner)) {
            continue;
          }
          XRUN_ASSIGN(const Buffer* buffer, next(role));
          if (buffer != own(param, Purpose::kPairs)) {
            return misplaced(*buffer);
          }
          XRUN_TRY(take_block(role, device_of_replica(other), bytes * owners_.sender_of(owner), bytes));
        }
      }
    }
    return end();
  }

  // Checks an exchange of the gradients of a tied weight: the device sends the gradients of its own readers to the
  // other stages that read the weight, and receives the gradients of their readers.
  Status check_readers() {
    if (!on_its_device()) {
      return at_fault("is of no stage, or elsewhere");
    }
    const Buffer& first = program_.buffer(one_->operands[0].buffer);
    const std::vector<ParamId> readers = first.param.valid() ? tied_group(graph_, first.param) : std::vector<ParamId>();
    if (readers.empty()) {
      return misplaced(first);
    }
    // A group exchanges one tied weight, and each replica has one group for a tied weight.
    const ParamId weight = graph_.param(first.param).tied;
    if (tied_of_.try_emplace(one_->group, weight).first->second != weight ||
        group_of_.try_emplace({weight.index, one_->replica}, one_->group).first->second != one_->group) {
      return at_fault("exchanges another weight than its group, or one that is exchanged twice");
    }
    std::vector<int> devices;  // index: reader
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

  // The number of the exchange before the compression, in which owners receive the gradients; not a round of sums.
  static constexpr int kOfSender = -1;

  std::vector<std::vector<ParamId>> whole_;       // index: stage; weights whose gradients are sent whole
  std::vector<std::vector<ParamId>> compressed_;  // index: stage; weights whose gradients are compressed
  // The progress of slices. `sliced_` has the number of weights exchanged so far; key: (stage, replica, round). `runs_`
  // has the range of weights of each group.
  std::map<std::tuple<int, int, int>, size_t> sliced_;
  std::map<int, std::pair<size_t, size_t>> runs_;
  std::map<int, ParamId> tied_of_;                   // key: group; the tied weight whose gradients are exchanged
  std::map<std::pair<int32_t, int>, int> group_of_;  // key: tied weight and replica
};

}  // namespace

Status verify_gradient_exchanges(const Program& program, const Module& module) {
  return GradientExchanges(program, module).run();
}

}  // namespace xrun::planner
