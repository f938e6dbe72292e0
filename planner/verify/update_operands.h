// The check of the operands of the instructions at the end of a step. verify_update_operands.cpp describes it and
// checks the order of the instructions; verify_gradient_operands.cpp checks the operands of each instruction.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "planner/verify/operand_view.h"

namespace xrun::planner {

class UpdateOperands : OperandView {
 public:
  UpdateOperands(const Program& program, const Module& module);
  Status run();

 private:
  // verify_update_operands.cpp: the order of the instructions and the arrival of terms
  std::set<int>& done() { return done_[{one_->stage, one_->replica}]; }

  bool is_folded(ParamId param);
  bool is_folded();
  bool is_summed();

  // Returns the number of rounds in which the instruction's replica has summed its slice of a gradient.
  int rounds_summed(ParamId param) { return summed_[{one_->stage, one_->replica}][param]; }

  Status note_terms();
  Status check_backward();
  Status note_gather();
  Status check();

  // The operations on the gradients of a replica of a stage, in the order in which they must run for a gradient. Each
  // runs once, except sums, which run once for each bucket and round, and folds, which may run by bucket before them.
  enum Rank { kFold, kSenderSums, kCompress, kSums, kTiedSums, kNorm, kLateCompress, kUpdate };
  int rank_of_instruction() const;
  // With a scale of the loss, gradients are compressed once all are known to be finite.
  int rank_of_compression() const { return module_.train.loss_scale.is_on() ? kLateCompress : kCompress; }
  std::set<ParamId> gradients_named() const;

  // verify_gradient_operands.cpp: the operands of one instruction
  Status check_gradient();
  Status check_compress(ParamId param);
  Status check_sums(const std::set<ParamId>& params);
  Status check_sum(ParamId param, int round);
  Status take_term(Role role, ParamId param, int replica, Slice slice);
  Status check_tied_sums();
  Status check_norms(ParamId param);
  Status take_all_norms();
  Status check_update();
  Status check_fold(NodeId id);

  // verify_update_operands.cpp: the end of the program
  bool sums_slices(const Stage& stage, int replica);
  bool compresses(const Stage& stage, int replica) const;
  bool has_tied(const Stage& stage) const;
  bool has_counted(const Stage& stage, int replica) const;
  Status check_complete();

  int states_;                                               // number of optimizer states
  std::vector<std::set<ParamId>> gradients_;                 // index: stage
  std::vector<std::set<ParamId>> compressed_;                // index: stage; the gradients that are compressed
  std::vector<std::set<ParamId>> whole_;                     // index: stage; the gradients that are sent whole
  std::set<std::pair<int, int>> gathers_;                    // (stage, replica): the pairs of all senders have arrived
  std::map<std::pair<int, int>, std::set<ParamId>> ended_;   // key: (stage, replica); complete gradients
  std::map<std::pair<int, int>, std::set<ParamId>> folded_;  // key: (stage, replica)
  // Key: (stage, replica). For each gradient, the number of rounds in which the replica has received its terms, and the
  // number in which it has summed them; and the gradients whose sums have arrived.
  std::map<std::pair<int, int>, std::map<ParamId, int>> received_;
  std::map<std::pair<int, int>, std::map<ParamId, int>> summed_;
  std::map<std::pair<int, int>, std::set<ParamId>> gathered_;
  std::map<std::pair<int, int>, std::set<ParamId>> brought_;  // tied weights with all other readers' gradients
  std::map<int, std::vector<const Buffer*>> prepared_;        // key: replica; in the order of their nodes
  std::map<std::pair<int, int>, std::set<int>> done_;         // key: (stage, replica); ranks of the finished operations
  std::set<ParamId> left_;                                    // gradients that no operand of the instruction has yet
};

}  // namespace xrun::planner
