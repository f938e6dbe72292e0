// Program: the instructions of every device, in order, with the buffers that they read and write. The planner's
// promise; the verifier, the simulator and the executor are three readers of the same value.
//
// Order. The list of instructions is a legal sequential order: every dependency points backward and the members of a
// group (collectives; a send and its receive, the send first) stand next to one another. What really binds is less:
// `deps`, the order of each (device, stream), and that a group completes for all of its members at once (a send ends
// when it was received).
//
// Where an operand of a stage pass lies, first match: a local of the pass's BlockLayout; a kPrepared buffer of (node,
// input); the kWeight or kState of a parameter on this device; otherwise the one buffer among the instruction's reads
// and writes that has this `value`; an output without any place is not wanted by anybody (null for the kernel only if
// it has no bytes; emit gives every output a place).
//
// Rows. Replica r owns row blocks [r·n/R, (r+1)·n/R) of the n blocks of the batch and micro-batches [r·M/R, (r+1)·M/R).
// A buffer with `micro_batch` m >= 0 has the rows (or G blocks) of micro-batch m; with -1 all rows of `replica`; and
// with -1 and `replica` -1 all rows of the global batch, in order.
//
// Head passes. Pass j (in `micro_batch`) takes h = HeadPlan::rows rows: all of the batch (h = batch, j = 0), or the
// j-th micro-batch of every replica (h = R·batch/M), rows in ascending global order. A head buffer with `micro_batch`
// j >= 0 has the h rows of pass j; with -1 all rows of the batch, of which a pass with h < batch takes [j·h, (j+1)·h)
// (only where R = 1 or h = batch). What each instruction reads and writes is said at `Pass` and `Kind`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/graph.h"
#include "graph/head_shape.h"

namespace xrun::planner {

struct BufferTag;
using BufferId = Id<BufferTag>;
struct InstructionTag;
using InstructionId = Id<InstructionTag>;

inline constexpr int kHost = -1;

// Partials of one replica: more accumulators than this cost more memory than they save in waiting.
inline constexpr int kMostPartials = 16;
// Terms of one sum over replicas: an all-reduce has room for so many addresses.
inline constexpr int kMostReplicas = 256;

// What a buffer is for; `persistent` purposes live across steps.
enum class Purpose : uint8_t {
  kWeight,     // f32 master weight of a parameter, whole            persistent
  kState,      // running statistics                                 persistent
  kOptimizer,  // one state of the optimizer for a weight            persistent
  kPrepared,   // a kernel's prepared form of a weight               persistent
  kGradient,   // partial accumulators of a weight's gradient: partial l of this replica at l·bytes / (partials /
              // replicas); the first kBackward that writes it zeroes it first. `value` is the gradient, `param` the
              // weight
  kHeadWeight,     // rows of this shard                                 persistent
  kHeadOptimizer,  // persistent
  kHeadPrepared,   // rounded rows of this shard                         persistent
  kInput,          // a batch input or label: the loader's slot          persistent (ring of the host arena)
  kActivation,   // value of a micro-batch, kept from F to B or crossing a stage; batch statistics (G) of operators with
                 // `folds_states` have all blocks of the replica (micro_batch -1) and live until the update
  kGathered,     // replica -1: features and labels of a head pass on a shard's device; batch statistics of all replicas
  kHeadStats,    // of all shards of the head in shard order, each head_stats_bytes(shard) (graph/head_shape.h); one
                 // buffer a device and pass: a shard writes its own part, all_gather fills in the others
  kHeadSoftmax,  // {max, 1 / sum} of each row: from kReduceStats
  kHeadGradient,  // dX partials of this device's shards in shard order, each head_gradient_bytes(shard)
  kHeadScratch,   // of one pass of one shard: head_scratch_bytes
  kScratch,       // one slice a worker, each align_up(BlockLayout::bytes)
  kNorms,   // f64 partial sums of squares for clip = norm, of all tensors that it counts in name order: one for each
            // 4 096 elements (the last may be short); tensors of heads: one for each class block
  kResult,  // per-row loss and metrics (and outputs, in inference), read by the trainer after the step: of one
            // replica, or of all (-1) where a head makes them. Of a head's logits (inference): k = HeadPlan::top_k
            // best classes, i32 [batch, k], then their logits, f32 [batch, k]; outputs of a list are two results
};

struct Buffer {
  BufferId id;
  int device = 0;  // kHost: the host arena (inputs, labels)
  Purpose purpose = Purpose::kActivation;
  Bytes bytes = 0;
  Bytes offset = 0;  // in the arena of `device`
  // First and last instruction (index in Program::instructions order of that device's time line) that touches it; for
  // persistent buffers the whole step.
  int32_t first_use = -1;
  int32_t last_use = -1;
  bool persistent = false;
  ValueId value;  // the graph's value that it holds, where it holds one
  ParamId param;
  int32_t slot = 0;          // kOptimizer: which state; kPrepared: which input of `node`; kInput: ring position
  NodeId node;               // kPrepared
  int32_t micro_batch = -1;  // -1: all rows of the replica; the executor adds the offset of the micro-batch or block
  int32_t replica = 0;
  int32_t head = -1;   // head buffers: index in Program::heads
  int32_t shard = -1;  // head buffers of one shard
  std::string name;    // for print-outs
};

enum class Kind : uint8_t {
  kRun,   // see Pass
  kSend,  // reads the value's buffer; its group is {send, recv}
  kRecv,  // writes the value's buffer of the same micro-batch
  // Each member fills in what others have. Told apart by what is written:
  //   kGathered features or labels of a head pass: members that read a buffer of the value contribute its rows of
  //     that micro-batch; members that write get all of them, at their place among the pass's rows.
  //     A pass with h = batch is filled by M / R such gathers, the i-th with the i-th micro-batch of every replica
  //   kHeadStats, kNorms: in place; each member has made its own part (kNorms: replica 0's, where replicas agree)
  //   kGathered batch statistics (replica -1): blocks of all replicas in order
  kAllGather,
  // Reads kHeadGradient (of devices with shards) and the feature's activation (of devices that made it); writes the
  // kActivation of `feature_grad` of that micro-batch. Members without a stage only give. A pass with h = batch is
  // followed by M / R of them.
  kReduceScatter,
  kAllReduce,  // reads = writes: partial 0 of all gradients of a stage, summed over replicas in a binary tree by
               // replica
  kCopy,       // writes[i] = reads[i], where one side has the rows of head pass j and the other all rows of the batch
  kFree,       // not emitted: live ranges are in the buffers
  kUpdate,     // of a stage's device: optimizer, states (fold_states), prepared weights. Reads partial 0 of kGradient,
               // kActivation or kGathered statistics, kNorms; writes kWeight, kOptimizer, kState, kPrepared, and the
               // kScratch of the device, in which kernels prepare weights
};
enum class Stream : uint8_t { kCompute, kComm };

// What a kRun does. Head passes name the head in `head` and the shard in `shard`; their features and labels are the
// buffers with the values HeadPlan::feature and label: kGathered, or kInput where data feeds them and the pass's rows
// are contiguous there.
enum class Pass : uint8_t {
  kNone,
  kForward,      // nodes of the stage on one micro-batch, block by block
  kBackward,     // recomputed forward nodes and backward nodes of the stage on one micro-batch
  kHeadForward,  // of one shard: reads features, labels, kHeadWeight, kHeadPrepared; writes kHeadStats, kHeadScratch
  kReduceStats,  // on every shard's device: reads kHeadStats, labels; writes kHeadSoftmax and, on the head's first
                 // device, loss and metrics: kResult with replica -1, rows at the pass's place (where R > 1 and h <
                 // batch a kResult of the pass, micro_batch j, that a kCopy puts there); in inference also the top-k of
                 // the logits
  kHeadBackward,  // of one shard: reads features, labels, softmax, weights; writes kHeadGradient, kHeadScratch and,
                  // unless `update_sweep`, kHeadWeight, kHeadOptimizer, kHeadPrepared (the fused update)
  kHeadNorms,     // where clip counts heads: sweep that writes the shard's squares to kNorms
  kHeadUpdate,    // dW + update sweep over all rows of the batch
  kFoldPartials,  // of a device, where a replica has several partials: sums them into partial 0, (0 + 1) + (2 + 3)
  kNorm,          // of a device: squares of its gradients (partial 0) to kNorms
};

struct Instruction {
  InstructionId id;
  Kind kind = Kind::kRun;
  Pass pass = Pass::kNone;
  int device = 0;
  Stream stream = Stream::kCompute;
  int stage = -1;
  int replica = 0;
  // Stage passes, sends, receives: counted globally, 0 .. micro_batches - 1. Head passes: j. Gathers of features and
  // reduce_scatter: index of the micro-batch inside each replica (its buffers say which one).
  int micro_batch = -1;
  int head = -1;              // head passes and their collectives: index in Program::heads
  int shard = -1;             // passes of one shard
  int group = -1;             // collectives: members of one collective share a number; send/recv pairs, too
  std::vector<NodeId> nodes;  // kRun of a stage: in order of execution
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  std::vector<InstructionId> deps;  // what must have completed: derived from reads, writes and stream order by emit
  Flops flops = 0;
  Bytes bytes = 0;  // moved, for communication
  Seconds predicted = 0;
  Span span;  // where the text asks for it
};

// A value that lives only while one row block passes through a stage: its place in the worker's scratch slice.
struct LocalValue {
  ValueId value;
  Bytes offset = 0;
  Bytes bytes = 0;
};

// Scratch slice of a worker in one pass of a stage: local values first, kernel scratch from `kernel_offset`.
struct BlockLayout {
  std::vector<LocalValue> locals;
  Bytes kernel_offset = 0;
  Bytes bytes = 0;
};

// A contiguous range of forward nodes in printed order, with the backward nodes that belong to them.
struct Stage {
  int index = 0;
  std::vector<int> devices;     // one per replica
  std::vector<NodeId> forward;  // in order
  std::vector<NodeId> backward;
  std::vector<NodeId> recomputed;  // forward nodes run again in the backward pass, in order
  std::vector<ValueId> saved;      // values kept per micro-batch for the backward pass
  std::vector<ValueId> received;   // activations from other stages (skips included)
  BlockLayout forward_layout;
  BlockLayout backward_layout;
  Seconds forward_time = 0;  // one micro-batch
  Seconds backward_time = 0;
  Bytes parameter_bytes = 0;
  Bytes activation_bytes = 0;  // of one micro-batch
};

// A row range of a head on a device: whole class blocks (DETERMINISM 6).
struct HeadShard {
  int head = 0;
  int shard = 0;
  int device = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  bool operator==(const HeadShard&) const = default;
};

struct HeadPlan {
  int head = 0;                 // index in Graph::heads
  NodeId node;                  // the classifier
  NodeId loss;                  // none when the loss does not use this head
  std::vector<NodeId> metrics;  // in inference also lists of best classes (topk), which compare with no label
  ValueId feature;
  ValueId feature_grad;  // the graph's input "<head>.dx"; none where nothing before the head is trained
  ValueId logits;
  ValueId label;  // none where neither loss nor metrics are computed
  ParamId weight;
  ParamId bias;  // none for cosine heads
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t class_block = 0;
  int64_t rows = 0;           // h: rows of one head pass; h == batch gives the fused update
  bool update_sweep = false;  // dW and update in one sweep at the end of the step (h < batch, or clip counts heads)
  int64_t top_k = 1;          // best classes kept a row
  bool bf16 = false;          // HeadShape::bf16
  double row_weight = 1;      // HeadShape::row_weight
  std::vector<HeadShard> shards;
  bool frozen = false;  // trained through, but not updated (Parameter::frozen)
  bool operator==(const HeadPlan&) const = default;
};

// A device's memory: one mapping.
struct Arena {
  int device = 0;
  Bytes bytes = 0;     // what is allocated
  Bytes live_max = 0;  // largest sum of live buffers
};

struct Program {
  bool training = true;
  bool deterministic = false;
  int devices = 1;
  std::vector<int> threads;  // workers of each device
  int64_t batch = 0;         // global rows of a step
  int64_t block_rows = 0;    // g
  int micro_batches = 1;
  int replicas = 1;
  // Of gradients, over all replicas: 4 with --deterministic (or as many as row blocks), else one for each worker of a
  // replica's device, at most kMostPartials a replica.
  int partials = 1;
  PipelineKind schedule = PipelineKind::kGpipe;
  std::vector<Stage> stages;
  std::vector<HeadPlan> heads;
  std::vector<Buffer> buffers;  // by BufferId
  std::vector<Instruction>
      instructions;           // by InstructionId; the instructions of one (device, stream) run in this order
  std::vector<Arena> arenas;  // by device
  bool overlap = true;

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id.index)]; }
  const Instruction& instruction(InstructionId id) const { return instructions[static_cast<size_t>(id.index)]; }
  int64_t micro_batch_rows() const { return batch / micro_batches; }
};

// What the passes of a shard depend on, for `rows` rows (HeadPlan::rows, or the batch for the update sweep): as the
// planner counted and the kernels are made.
HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows);

const char* name_of(Kind kind);  // "all_gather"

// Stable text of the program, one instruction a line (`xrun show --emit program`).
std::string print(const Program& program, const Graph& graph);

}  // namespace xrun::planner
