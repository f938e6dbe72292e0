// The state of one emission, shared by emit.cpp (order of work), emit_stage.cpp, emit_inputs.cpp, emit_head.cpp,
// emit_head_buffers.cpp, emit_head_statistics.cpp, emit_dx.cpp, emit_update.cpp, emit_compression.cpp,
// emit_replica_sums.cpp, emit_segments.cpp, emit_split.cpp, emit_tied_sums.cpp and, for operands, emit_operands.cpp and
// emit_head_operands.cpp.
#pragma once

#include <array>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "graph/layouts/compression.h"
#include "graph/layouts/norm_layout.h"
#include "planner/emit/emit.h"
#include "planner/emit/memory.h"
#include "planner/emit/value_flow.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/compression_owners.h"
#include "planner/program/dx_terms.h"
#include "planner/program/replica_sums.h"

namespace xrun::planner {

class Emitter {
 public:
  explicit Emitter(const EmitRequest& request);

  Result<Program> run();

 private:
  // The part of a pass that one instruction runs: all nodes of the pass, or a range of them (emit_segments.cpp).
  struct Segment {
    std::vector<NodeId> nodes;
    std::vector<ValueId> kept;  // values that get buffers, unless they have one
    BlockLayout layout;
    Seconds time = 0;
    size_t first_bucket = 0;         // index of the first bucket of gradients that is final after the segment
    std::vector<ParamId> gradients;  // weights whose gradients are final after the segment
  };

  // emit.cpp
  Status check_request() const;
  Status walk_schedule();
  bool is_ready(int replica, const Action& action) const;
  bool is_head_ready(int pass) const;
  void take(int replica, const Action& action);

  // emit_stage.cpp
  void fill_stages();
  void add_parameters();
  void add_parameter(ParamId param, int stage, int replica);
  void add_row_buffers();
  void emit_pass(int stage, int replica, int index, bool backward);
  void emit_pass(int stage, int replica, int index, bool backward, const Segment& segment);
  void emit_crossings(int stage, int replica, int index, bool backward);
  void emit_statistics_gather(int stage);

  // emit_inputs.cpp
  void add_inputs();
  void emit_input_copies(const Instruction& pass);

  // emit_operands.cpp
  void add_node_operands(Instruction& instruction, const BlockLayout& layout, BufferId scratch);
  Operand input_operand(const Instruction& instruction, NodeId node, size_t index) const;
  Operand rows_operand(Role role, Access access, BufferId buffer, ValueId value, int64_t first_row) const;
  Operand micro_batch_operand(Role role, Access access, BufferId buffer, ValueId value, int micro_batch) const;
  Operand scratch_operand(BufferId scratch, Bytes offset, Bytes bytes) const;
  Operand local_operand(BufferId scratch, const LocalValue& local) const;
  Operand whole(Role role, Access access, BufferId buffer) const;
  int64_t first_row(const Buffer& buffer) const;  // the row of the batch with which a buffer of a stage begins

  // emit_head_operands.cpp
  void add_rows(size_t head, Role role, BufferId buffer, Instruction& instruction) const;
  void add_features_and_labels(size_t head, Instruction& instruction);
  void add_weights(size_t head, const HeadShard& shard, Instruction& instruction, bool update) const;
  void add_results(size_t head, Instruction& instruction);
  void add_selection(size_t head, const HeadShard& shard, Instruction& instruction) const;
  void add_copy(size_t head, BufferId from, BufferId to, Instruction& copy) const;
  void add_logits(size_t head, const HeadShard& shard, Access access, Instruction& instruction);
  void add_head_scratch(size_t head, const HeadShard& shard, HeadPass pass, Instruction& instruction);
  void add_head_scratch(size_t head, int shard, Bytes bytes, Instruction& instruction);
  void add_softmax(size_t head, Access access, Instruction& instruction);
  int64_t pass_row(size_t head, const Buffer& buffer, int pass) const;
  int64_t head_row(size_t head, const Buffer& buffer, int micro_batch) const;

  // emit_head_buffers.cpp
  void add_head_buffers();
  void add_shard_weights(size_t head, const HeadShard& shard);
  void add_shard_buffers(size_t head, const HeadShard& shard);
  void add_graph_buffers(size_t head);
  void add_result_buffers(size_t head);
  BufferId pass_buffer(size_t head, ValueId value, int device, int pass);
  BufferId softmax_buffer(size_t head, int device, int pass);

  // emit_head_statistics.cpp
  void emit_statistics(size_t head, int pass);
  void emit_head_forward(size_t head, int pass);
  void emit_statistics_exchange(size_t head, int pass);
  void emit_reduce_statistics(size_t head, int pass, int device);
  Operand statistics_operand(Role role, Access access, size_t head, int pass, int device, const HeadShard& shard) const;

  // emit_head.cpp
  void emit_gathers(int stage, int index);
  void emit_gather(size_t head, ValueId value, int index);
  void emit_selections();
  void emit_masses();
  void emit_head_pass(int pass);
  void emit_head_pass(size_t head, int pass);
  void emit_pass_copies(size_t head, int pass);
  void emit_head_gradients(size_t head, int pass);
  void emit_head_updates();
  Instruction head_instruction(size_t head, Kind kind, const HeadShard& shard, int pass) const;
  const HeadShard* first_shard(size_t head, int device) const;  // first shard with rows; null if there is none
  std::vector<int> shard_devices(size_t head) const;            // devices that have shards with rows, ascending
  bool trains(size_t head) const { return program_.training && program_.heads[head].loss.valid(); }
  bool updates(size_t head) const { return trains(head) && !program_.heads[head].frozen; }
  // Whether each pass has separate buffers, since the rows of a pass are not contiguous in the batch.
  bool apart(size_t head) const { return program_.replicas > 1 && program_.heads[head].rows < program_.batch; }
  int pass_of(int index) const { return decision_.schedule.head_passes <= 1 ? 0 : index; }
  Seconds share(size_t head, const HeadShard& shard, Seconds slowest) const;

  // emit_dx.cpp
  struct DxPlace;
  void emit_dx(size_t head, int pass, int index);
  void emit_dx_terms(const DxPlace& at, const std::vector<DxSum>& sums);
  void emit_node_sum(const DxPlace& at, const DxSum& sum);
  void emit_reduce_dx(const DxPlace& at, const DxSum& sum);
  Instruction dx_instruction(Kind kind, const DxPlace& at, int device, int replica) const;
  Buffer dx_buffer(const DxPlace& at, const DxSum& sum, Purpose purpose, const char* name) const;
  Operand dx_operand(const DxPlace& at, const DxSum& sum, const DxTerm& term) const;
  void add_dx_sent(const DxPlace& at, const DxSum& sum, Instruction& exchange) const;
  Bytes add_dx_received(const DxPlace& at, const DxSum& sum, Instruction& exchange);
  void add_dx_reads(const DxPlace& at, const DxSum& sum, Instruction& instruction) const;
  void add_dx_scratch(const DxPlace& at, Instruction& sum);
  HeadGradientRows dx_rows_of(const DxPlace& at, const DxSum& sum, const DxTerm& term) const;

  // emit_update.cpp
  using NormOperands = std::map<int, std::vector<Operand>>;  // key: device; sums of squares that only this device has
  void emit_update();
  void emit_stage_update(const Stage& stage, int replica);
  void add_weight_update(ParamId param, int device, Instruction& update);
  void emit_folds();
  void emit_folds(int stage, const std::vector<ParamId>& gradients);
  void emit_norms();
  void emit_head_norms(NormOperands& made);
  void emit_norms_gather(NormOperands made);
  void add_norm_buffers();
  void add_fold(NodeId node, int device, Instruction& update) const;
  Operand gradient_operand(Role role, Access access, ParamId param, int device) const;
  Operand norms_operand(ParamId param, BlockRange part, int device, Access access) const;

  // emit_compression.cpp
  bool is_compressed(ParamId param) const { return owners_.compresses(param); }
  std::vector<ParamId> compressed_gradients(int stage) const;  // in the order of the parameters
  bool compresses_late() const;
  void emit_compression(int stage);
  void emit_sender_sums(int stage);
  Instruction compress(const std::vector<ParamId>& compressed, int stage, int replica) const;
  void emit_gather_of_pairs(const std::vector<ParamId>& compressed, int stage);

  // emit_replica_sums.cpp
  using Bucket = std::vector<ParamId>;  // gradients that are summed together
  void emit_replica_sums(int stage);
  void emit_slices_to_owners(int stage, int round, const Bucket& bucket);
  void emit_sums(int stage, int round, const Bucket& bucket);
  void emit_slices_to_all(int stage, const Bucket& bucket);
  std::vector<Bucket> gradient_buckets(int stage, bool compressed) const;
  ReplicaSums sums_of(ParamId param) const {
    return is_compressed(param) ? owners_.sums(param) : ReplicaSums(program_);
  }
  int64_t gradient_elements(ParamId param) const;
  Instruction slice_exchange(Kind kind, int stage, int replica) const;
  Instruction slices_to_owners(int stage, int replica, int round, const Bucket& bucket);
  Instruction slices_to_all(int stage, int replica, const Bucket& bucket) const;
  Instruction sum_of_slices(int stage, int replica, int round, const Bucket& bucket) const;
  Operand slice_operand(Role role, ParamId param, int device, Slice slice) const;

  // emit_segments.cpp
  void cut_last_pass();
  void divide_time(Seconds whole, std::span<Segment> segments) const;
  void emit_segment(const Segment& segment);

  // emit_split.cpp
  void split_passes();
  void split_pass(const Stage& stage, const std::vector<bool>& for_weights);

  // emit_tied_sums.cpp
  void emit_tied_sums();
  void emit_tied_exchange(const std::vector<ParamId>& readers, int replica);
  Instruction sum_of_readers(int stage, int replica) const;
  int stage_with_gradient(ParamId param) const;
  ParamId holder(ParamId param, int stage) const;

  // Functions that several of these files use.
  bool on_gpus() const { return !program_.gpu.empty(); }
  // Rows of a value that is local to a pass: a call of a kernel spans one row block or, on GPUs, the micro-batch.
  int64_t local_rows() const { return on_gpus() ? program_.micro_batch_rows() : program_.norm_rows; }
  BufferId add_buffer(Buffer buffer);
  std::vector<Operand> blocks_to_replicas(int stage) const;
  Instruction& add(Instruction instruction);
  BufferId place(ValueId value, int device, int micro_batch) const;  // invalid if the value has no buffer there
  void set_place(ValueId value, int device, int micro_batch, BufferId buffer);
  BufferId add_activation(ValueId value, int device, int replica, int micro_batch);
  BufferId add_scratch(int device, Bytes slice, const std::string& name);
  Stream comm_stream() const { return decision_.overlap ? Stream::kComm : Stream::kCompute; }
  int per_replica() const { return decision_.micro_batches / decision_.replicas; }
  int global_micro_batch(int replica, int index) const { return replica * per_replica() + index; }
  const Stage& stage(int index) const { return program_.stages[static_cast<size_t>(index)]; }
  int device_of(int stage_index, int replica) const { return stage(stage_index).devices[static_cast<size_t>(replica)]; }
  const TensorType& type(ValueId value) const { return graph_.value(value).type; }
  std::string name_of_value(ValueId value) const;

  const EmitRequest& request_;
  const Graph& graph_;
  const Decision& decision_;
  Program program_;
  ValueFlow flow_;
  CompressionOwners owners_;

  std::map<std::tuple<int32_t, int, int>, BufferId> places_;            // (value, device, micro-batch or -1)
  std::map<ValueId, BufferId> inputs_;                                  // position 0 of the loader's ring
  std::map<std::pair<ParamId, int>, BufferId> weights_;                 // (parameter, device): weight or state
  std::map<std::pair<ParamId, int>, std::vector<BufferId>> optimizer_;  // (parameter, device): a buffer per state
  std::map<std::tuple<int32_t, int, int>, BufferId> prepared_;          // (device, node, input)
  std::map<std::pair<ParamId, int>, BufferId> gradients_;               // (parameter, device)
  std::map<std::pair<ParamId, int>, BufferId> gradient_terms_;          // (parameter, device)
  std::map<std::pair<ParamId, int>, BufferId> pairs_;                   // (parameter, device)
  std::map<int, BufferId> norms_;                                       // key: device
  NormLayout norm_layout_;

  // State of heads; keys begin with the index in Program::heads.
  std::vector<std::vector<ShardPart>> shard_parts_;  // index: head, shard
  std::vector<int64_t> most_rows_;                   // index: head; class rows of the device that has the most of them
  struct ShardBuffers {
    std::vector<BufferId> weights;  // class weights, bias
    std::vector<BufferId> states;
    BufferId scales;
    BufferId last;
    BufferId prepared;
    BufferId selection;
    BufferId mass;
  };
  std::map<std::pair<size_t, int>, ShardBuffers> shards_;  // (head, shard)
  std::map<size_t, BufferId> lists_;
  std::map<std::tuple<size_t, int32_t, int, int>, BufferId> gathered_;  // (head, value, device, pass or -1)
  std::map<std::tuple<size_t, int, int>, BufferId> softmax_;            // (head, device, pass or -1)
  std::map<std::tuple<size_t, int, int>, BufferId> statistics_;         // (head, device, pass)
  std::map<std::tuple<size_t, int, int>, BufferId> partials_;           // (head, device, pass)
  std::map<std::tuple<size_t, int, int>, BufferId> logits_;             // (head, shard, pass)
  // Key: (head, micro-batch, first shard of a node's sum or -1).
  std::map<std::tuple<size_t, int, int>, BufferId> terms_;
  std::map<std::tuple<size_t, int, int>, BufferId> node_sums_;
  std::map<std::pair<size_t, int32_t>, BufferId> results_;  // (head, value)

  // The state of walk_schedule.
  std::vector<std::vector<size_t>> next_;                // [rank][replica]: index of the next action
  std::vector<std::vector<std::vector<bool>>> forward_;  // [stage][replica][index]: whether the pass is emitted
  std::vector<std::vector<std::vector<bool>>> backward_;
  std::vector<bool> heads_done_;  // index: head pass; whether its instructions are emitted
  int next_head_ = 0;
  int groups_ = 0;
  int cut_stage_ = -1;             // the stage whose last backward pass is cut; -1: no pass is cut
  std::vector<Segment> segments_;  // the segments of this pass
  // Index: stage; input and weight gradients of a pass. Empty if no pass is split.
  std::vector<std::array<Segment, 2>> split_;
  std::vector<BlockLayout> forward_layouts_;  // index: stage
  std::vector<BlockLayout> backward_layouts_;
  std::set<BufferId> zeroed_;  // gradient buffers that an emitted backward pass sets to zero
};

}  // namespace xrun::planner
