// A run of a program over symbols, which proves that the step computes what the module describes.
//
// State. For each buffer, the run keeps the symbol that each byte holds (planner/verify/contents.h). A symbol is a
// tensor of the step: all rows of a value, the gradient of a weight in a partial or summed over some replicas, the
// statistics of all shards in a head pass, all sums of squares, the old or the new contents of a persistent buffer. A
// byte holds "byte p of symbol S", so bytes may be moved in any parts and ways: a gather, a send or a copy moves the
// symbols of its blocks, whatever they are.
//
// Rules. For each instruction, the run derives from the module which symbols the operands must hold before it, and
// which they hold after it. Examples: a node reads the rows of its micro-batch and makes those rows of its outputs; a
// backward pass adds micro-batch m to a partial that has the micro-batches before m, or zeros; a sum over replicas
// takes sums over disjoint ranges of replicas and makes the sum over all of them; an update takes a gradient that is
// summed over all replicas and the old weight, and makes the new weight. Bytes that an instruction uses as working
// memory hold nothing after it.
//
// Start and end. At the start, inputs hold all rows of the batch, persistent buffers hold their old contents, and all
// other bytes hold nothing. At the end, every weight, state, prepared weight and class row that the step trains is new,
// all others are old, and every result has all its rows.
//
// Proof. An instruction is accepted only if it reads the right symbols, so by induction over the list each symbol
// stands for what its name states: heads see all rows of the batch, a softmax all shards, each update every micro-batch
// of every replica once, each clip all sums of squares, and each reader the value of this step. verify_order has shown
// that accesses to the same bytes have an order, unless both are reads, and verify_memory that buffers which share
// bytes are never in use together; therefore every execution gives the same contents as the order of the list. The
// members of a group are adjacent: their sends read the contents before the group, and their receives write after that.
//
// Time: O(n log n) for n operands, blocks and pieces. A program with so many pieces that it would take longer is
// refused.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "planner/program/buffer_sizes.h"
#include "planner/program/compression_owners.h"
#include "planner/program/dx_terms.h"
#include "planner/verify/symbolic_state.h"

namespace xrun::planner {

class SymbolicRun : SymbolicState {
 public:
  // The arguments outlive the object. REQUIRES: those of verify_values.
  SymbolicRun(const Program& program, const Module& module);
  // Errors: XG0622 with the instruction, the buffer, and what the buffer lacks.
  Status run();

 private:
  Status step();

  // symbolic_start.cpp: the contents at the start and at the end of the step
  Content kept(const Buffer& buffer) const;
  bool renews(const Buffer& buffer) const;
  void start();
  Status check_end();
  Status check_result(const Buffer& buffer) const;
  Status check_results() const;

  // symbolic_stage.cpp
  Status stage_pass();
  Status take_input(NodeId node, size_t input);
  Status take_output(NodeId node, size_t output);
  bool is_local(const Operand& operand) const;
  Status take_local(const Operand& operand, ValueId value);
  Status take_block_rows(const Operand& operand, ValueId value);
  Status add_gradient(const Operand& operand, ValueId gradient);

  // symbolic_head.cpp
  Status check_shard() const;
  Status select();
  Status shard_pass();
  Status measure_mass();
  Status reduce_statistics();
  Status take_result(ValueId value);
  Status take_rows(Role role, ValueId value);
  Status take_softmax(Access access);
  Status take_selection(Access access, int shard);
  Status take_class_rows(const HeadShard& shard, bool update, bool fresh);
  Status take_head_norms(const HeadShard& shard);
  Status take_all_norms();

  // symbolic_dx.cpp
  Status sum_dx();
  Status take_dx_term(const ClassRange& classes);
  Result<DxTerm> dx_term(const ClassRange& classes, int first) const;
  Content symbol_of(const DxTerm& term) const;

  // symbolic_update.cpp
  Status end_of_step();
  Status fold_partials();
  Status sum_replicas();
  Status sum_readers();
  Status compress();
  Status count_squares();
  Status update();
  Status update_weight(std::set<ParamId>& changed);
  Status fold_states();
  Status take_state(NodeId id, ParamId param, size_t input);
  Status prepare(const std::set<ParamId>& changed);
  Result<ParamId> take_gradient(Access access);

  std::vector<Segment> segments(const HeadPlan& head, int pass, Bytes row) const;
  const HeadPlan& head() const { return program_.heads[static_cast<size_t>(one_->head)]; }
  const HeadShard& shard() const { return head().shards[static_cast<size_t>(one_->shard)]; }
  bool updates(const HeadPlan& head) const { return program_.training && head.loss.valid() && !head.frozen; }
  int micro_batch() const { return one_->replica * program_.micro_batches_of_replica() + one_->gather; }
  Content value_of(ValueId value) const { return {.what = What::kValue, .id = value.index}; }
  Content sum_of(ParamId param, int first, int last) const {
    return {.what = What::kSum, .id = param.index, .first = first, .last = last};
  }
  // The symbol of a gradient from which the weight is updated or, if it is compressed, from which pairs are taken.
  Content complete_gradient(ParamId param) const;
  // The parameter that stands for all readers of a tied weight, or `param` itself.
  ParamId weight_of(ParamId param) const { return graph_.param(param).tied.valid() ? graph_.param(param).tied : param; }
  Bytes gradient_bytes(ParamId param) const { return bytes_of(graph_.param_grads[param], 0); }
  bool has_gradient(ParamId param) const {
    return param.valid() && !graph_.param_grads.empty() && graph_.param_grads[param].valid();
  }

  CompressionOwners owners_;
  NormLayout norms_;
  int states_ = 0;                                        // number of optimizer states
  std::vector<std::vector<ShardPart>> parts_;             // index: head, shard
  std::set<std::tuple<int32_t, int32_t, int>> prepared_;  // (node, input, replica) with a prepared weight
  std::map<ValueId, ParamId> param_of_;                   // weights by the values of their gradients
  std::set<ParamId> trained_;                             // weights with a gradient (weight_of)
  std::map<ParamId, std::vector<NodeId>> folded_;         // states, with the operators that fold them, in order

  // State of a stage pass.
  std::vector<Touch> rows_;             // accesses of all nodes to buffers with rows and gradients
  std::map<BufferId, Contents> slice_;  // the values of a row block in the slice of its worker
  const Operand* kernels_ = nullptr;    // scratch memory of kernels
};

}  // namespace xrun::planner
