// Program: the instructions of every device, in order, with the buffers that they read and write. The planner makes it;
// the verifier, the simulator and the executor read the same value.
//
// Order. The list of instructions is a legal sequential order: an instruction depends only on earlier ones, and the
// members of a group (a collective, or a send followed by its receive) are adjacent. A run may use any other order that
// respects `deps` and `releases`, keeps the order within each (device, stream), and starts an exchange only when all
// members of its group are there.
//
// Exchanges. A member of an exchange is posted when the instructions before it in its stream permit it. It then
// completes in two steps: it is received when all blocks that it receives are in their places, and it is released when
// the blocks that it sends may be overwritten. An instruction that reads received blocks waits until the exchange is
// received; one that overwrites sent blocks waits until it is released. In the stream kComm the next exchange waits
// only until this one is posted; in kCompute (used if `overlap` is off) the next instruction waits until this one is
// received and released.
//
// Rows. The global batch has n row blocks of `norm_rows` rows and M micro-batches. Of R replicas, replica r owns the
// row blocks [r·n/R, (r+1)·n/R) and the micro-batches [r·M/R, (r+1)·M/R). A buffer whose `micro_batch` is m >= 0 has
// the rows of micro-batch m (a value of type G has one entry per row block instead). If `micro_batch` is -1, the buffer
// has all rows of `replica`; if `replica` is also -1, it has all rows of the global batch, in order.
//
// Head passes. A head pass works on h = HeadPlan::rows rows. Either one pass (j = 0) takes the whole batch (h = batch),
// or pass j takes the j-th micro-batch of every replica (h = R·batch/M), with rows in ascending global order. A head
// buffer whose `head_pass` is j >= 0 has the h rows of pass j. If `head_pass` is -1, the buffer has all rows of the
// batch, and pass j reads its rows [j·h, (j+1)·h); this is used only if R = 1 or h = batch, since otherwise the rows of
// a pass are not contiguous.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/graph.h"
#include "graph/layouts/head_shape.h"
#include "graph/layouts/knn_cells_layout.h"
#include "graph/layouts/rows_layout.h"
#include "graph/passes/untie.h"
#include "planner/program/operand.h"

namespace xrun::planner {

struct InstructionTag;
using InstructionId = Id<InstructionTag>;

inline constexpr int kHost = -1;

// The maximum number of gradient partials (accumulators that workers fill concurrently) of one replica. More partials
// would shorten the waits of workers for one another, but not enough to justify their memory.
inline constexpr int kMostPartials = 16;
// The maximum number of replicas, which is also the maximum number of readers of a tied weight: a kernel that sums over
// them has space for this many addresses.
inline constexpr int kMostReplicas = kMostReaders;

// The purpose of a buffer. Buffers marked `persistent` keep their contents from step to step.
enum class Purpose : uint8_t {
  kWeight,         // f32 master weight of a parameter, whole            persistent
  kState,          // running statistics                                 persistent
  kOptimizer,      // one state of the optimizer for a weight            persistent
  kPrepared,       // a kernel's prepared form of a weight               persistent
  kGradient,       // the replica's gradient partials of weight `param`, each aligned; `value` is the gradient
  kHeadWeight,     // this shard's class rows in format HeadPlan::weights, or its part of the bias     persistent
  kHeadOptimizer,  // one optimizer state of kHeadWeight, in format HeadPlan::states                   persistent
  kHeadPrepared,   // this shard's class rows, rounded for the kernels                                 persistent
  kInput,          // a batch input or label: the loader's slot          persistent (ring of the host arena)
  kActivation,     // a value of a micro-batch that is kept for the backward pass or sent to another stage. Batch
                // statistics (type G) of operators with `folds_states` have all row blocks of the replica (micro_batch
                // -1) and live until the update
  kGathered,  // values gathered from all replicas (replica -1): features and labels of a head pass on a shard's
              // device, or batch statistics
  kTerms,     // terms that other devices sent for a sum on this device. For a head (`head`, `micro_batch`): rows of dX
           // partials, in the order of their classes; if `shard` >= 0, they are for the sum on a node whose first shard
           // is `shard`. For a gradient (`param`): the slices of the other members of a round, ordered by replica; each
           // round overwrites the slices of the previous round (planner/program/replica_sums.h). For a tied weight
           // (`param`): the whole gradient that another stage computes
  kHeadLists,      // lists of the HeadPlan::neighbours nearest classes of every class; on the host       persistent
  kHeadSnapshot,   // f32 class weights for building the next lists; on the host                           persistent
  kHeadBuild,      // the next lists, then the working memory of their build; on the host                  persistent
  kHeadSelection,  // the active classes of a shard: head_selection (graph/layouts/head_shape.h); read by all passes of
                   // the step                                                                             persistent
  kHeadMass,       // the RowMass (ops/head/mass.h) of each row of the first pass, in steps that measure it;
                   // persistent
  kHeadStats,      // statistics of all shards of the head in order, each head_stats_bytes(shard)
               // (graph/layouts/head_shape.h). Each device has one buffer per pass: its shards write their own parts,
               // and an all-gather fills in the parts of the other devices
  kHeadSoftmax,   // {max, 1 / sum} of each row, written by kReduceStats
  kHeadLogits,    // logits of a shard's kept class blocks in one pass: kHeadForward writes them for kHeadBackward
  kHeadGradient,  // dX partials of this device's shards in shard order, each head_gradient_bytes(shard)
  kHeadScratch,   // scratch memory for one pass of one shard, head_scratch_bytes in size
  kScratch,       // scratch memory of kernels: one aligned slice per worker
  kNorms,         // f64 partial sums of squares for clip = norm, for all tensors that the clip counts, in name order. A
           // tensor of a head has one sum for each class block; other tensors have one sum per 4 096 elements (the
           // last may be short)
  kResult,  // per-row loss and metrics (and outputs, in inference), which the trainer reads after the step. It has
            // the rows of one replica, or of all replicas (-1) if a head makes them. The logits of a head (inference)
            // become its k = HeadPlan::top_k best classes, i32 [batch, k], followed by their logits, f32 [batch, k];
            // a list of best classes (topk) has one result for the classes and one for the scores
  kHeadScale,  // f32 scales of this shard's rows if the rows are fp8       persistent
  kHeadLast,   // with Untouched::kExact: the step (i32) that last updated each row of this shard       persistent
  kResidual,   // states of a compressed weight (graph/layouts/compression.h), in place of kOptimizer. Each sender has
              // its own, on the replica that compresses. State 0 is its velocity, state 1 its residual: the accumulated
              // gradient that was not sent       persistent
  kPairs,     // GradientPairs of a compressed weight from all senders, pairs_bytes each
  kHeadSums,  // the sum, by kSumDx, of the dX partials of several shards of a node for the rows of a micro-batch
              // (planner/program/dx_terms.h); `shard` is the first of these shards
};

// Whether every step overwrites a persistent buffer of this purpose, so that it contains nothing that was learned.
constexpr bool is_refilled(Purpose purpose) {
  return purpose == Purpose::kInput || purpose == Purpose::kHeadSelection || purpose == Purpose::kHeadMass;
}

struct Buffer {
  BufferId id;
  int device = 0;  // kHost: in the host arena, such as inputs and labels
  Purpose purpose = Purpose::kActivation;
  Bytes bytes = 0;
  Bytes offset = 0;  // offset in the arena of `device`
  // The first and the last instruction that accesses the buffer, as indices in Program::instructions. A persistent
  // buffer is in use for the whole step.
  int32_t first_use = -1;
  int32_t last_use = -1;
  bool persistent = false;
  ValueId value;  // the graph's value in it, if any
  ParamId param;
  int32_t state = -1;  // kOptimizer, kHeadOptimizer: index of the state
  int32_t ring = -1;   // kInput: position in the loader's ring
  NodeId node;         // kPrepared: the node that reads the prepared form as its input `node_input`
  int32_t node_input = -1;
  int32_t micro_batch = -1;  // buffers of stages; -1: the buffer has all rows of the replica
  int32_t replica = 0;       // -1: the buffer belongs to no single replica
  int32_t head = -1;         // head buffers: index in Program::heads
  int32_t head_pass = -1;    // head buffers with the rows of one pass; -1: all rows of the batch
  int32_t shard = -1;        // head buffers of one shard
  std::string name;          // for print-outs
};

enum class Kind : uint8_t {
  // Passes of a stage over one micro-batch, row block by row block.
  kForward,   // runs the nodes of the stage
  kBackward,  // runs the recomputed forward nodes, then the backward nodes
  // Runs once a step, before all passes of a head: selects the active classes of a shard.
  kHeadSelect,
  // Passes of heads, over the rows of pass `head_pass` or over all rows of the batch. Each works on one shard, except
  // kReduceStats and kReduceDx, which combine shards.
  kHeadForward,  // computes the statistics of its shard
  kReduceStats,  // combines the statistics of all shards into the softmax, on every device that needs it. On the head's
                 // first device it also computes loss and metrics or, in inference, the best classes of the logits
  kHeadBackward,  // computes dX partials and, unless `update_sweep` is set, updates the shard's rows (the fused update)
  kHeadNorms,     // computes the sums of squares of the shard's gradient, if the clip counts heads
  kHeadUpdate,    // recomputes dW over all rows of the batch and updates the shard's rows
  kHeadMass,      // measures the active classes' share of the softmax, at the end of the steps that measure it
  kReduceDx,      // sums the dX partials of all shards to the feature gradient of one micro-batch, on the devices that
                  // made the features
  // The end of a step, for a stage's replica.
  kFoldPartials,  // if a replica has several partials: sums them into partial 0, (0 + 1) + (2 + 3)
  kSumReplicas,   // sums the replica's slice of the gradients over the members of a round, in a binary tree by replica
  kNorm,          // computes the sums of squares of the replica's gradients (partial 0)
  kUpdate,        // runs the optimizer and updates running statistics and prepared weights
  kCopy,          // copies rows of a head pass to or from their places among the rows of the batch
  // Exchanges. An exchange has one instruction for each member; they have the same `group`.
  kSend,
  kRecv,
  // Each member receives the blocks of all other members. It gathers one of: features or labels of a head pass, for one
  // micro-batch of every replica (a pass with h = batch needs M / R such gathers); statistics of heads, norms, slices
  // of
  // summed gradients or pairs of compressed gradients, in place; batch statistics; gradients of a tied weight, among
  // the
  // stages that read it.
  kAllGather,
  // Sends terms to the device that sums them: dX partials to kReduceDx or, if `shard` >= 0, to kSumDx; slices of
  // gradients to kSumReplicas.
  kReduceScatter,
  // Adds gradients of compressed weights (the replica's own, or the sum over the replicas of its sender) to their
  // velocities and residuals, and takes out the largest elements to send. It runs at the end of a step, before
  // kSumReplicas sums the gradients that are sent whole. This kind and the next ones come last in this list because
  // plan files store the numbers of kinds.
  kCompress,
  // Adds the gradients of all readers of a tied weight in a binary tree, into the gradient of the stage's copy. It runs
  // after kSumReplicas.
  kSumTied,
  // Sums the dX partials of several shards of a node before the node sends them to kReduceDx; `shard` is the first of
  // these shards. It is used on nodes that did not make the features (planner/program/dx_terms.h).
  kSumDx,
};
enum class Stream : uint8_t { kCompute, kComm };

constexpr bool communicates(Kind kind) { return kind >= Kind::kSend && kind <= Kind::kReduceScatter; }
constexpr bool is_stage_pass(Kind kind) { return kind <= Kind::kBackward; }
constexpr bool is_head_pass(Kind kind) { return kind >= Kind::kHeadForward && kind <= Kind::kHeadUpdate; }
// Whether an instruction is a computation of a head: a pass, or work before or after the passes such as kHeadSelect.
constexpr bool is_of_head(Kind kind) {
  return (kind >= Kind::kHeadSelect && kind <= Kind::kReduceDx) || kind == Kind::kSumDx;
}
// Whether a head pass covers all rows of the batch at the end of a step.
constexpr bool is_head_sweep(Kind kind) { return kind == Kind::kHeadNorms || kind == Kind::kHeadUpdate; }

struct Instruction {
  InstructionId id;
  Kind kind = Kind::kForward;
  int device = 0;
  Stream stream = Stream::kCompute;
  int stage = -1;
  int replica = 0;            // -1: it belongs to no single replica
  int micro_batch = -1;       // stage passes, sends and receives: counted globally, 0 .. micro_batches - 1
  int head = -1;              // head passes, their copies and exchanges: index in Program::heads
  int head_pass = -1;         // index of the head's pass; -1: all rows of the batch
  int gather = -1;            // exchanges and sums of features or their gradient: the micro-batch inside each replica
  int shard = -1;             // passes: their shard; sums of dX on a node, and the exchanges before: the first shard
  int group = -1;             // exchanges: shared by all members; also by a send and its receive
  std::vector<NodeId> nodes;  // stage passes: in order of execution
  std::vector<Operand> operands;
  std::vector<BufferId> reads;   // buffers of `operands` that are read, each once (derive_accesses)
  std::vector<BufferId> writes;  // a buffer that a computation writes before it reads it is only in `writes`
  // Before this instruction begins, the computations in `deps` must have ended, the exchanges in `deps` must be
  // received, and the exchanges in `releases` must be released. Emit derives both lists from reads, writes and the
  // order of streams.
  std::vector<InstructionId> deps;
  std::vector<InstructionId> releases;
  Flops flops = 0;
  Bytes bytes = 0;  // communication: bytes moved
  Seconds predicted = 0;
  Span span;  // the place in the model text that the instruction comes from
};

// Fills `reads` and `writes` from the operands.
void derive_accesses(Instruction& instruction);

// A contiguous range of forward nodes in printed order, with the backward nodes that belong to them.
struct Stage {
  int index = 0;
  std::vector<int> devices;     // one per replica
  std::vector<NodeId> forward;  // in order
  std::vector<NodeId> backward;
  std::vector<NodeId> recomputed;  // forward nodes run again in the backward pass, in order
  std::vector<ValueId> saved;      // values kept per micro-batch for the backward pass
  std::vector<ValueId> received;   // activations from other stages (skips included)
  Seconds forward_time = 0;        // one micro-batch
  Seconds backward_time = 0;
  Bytes parameter_bytes = 0;
  Bytes activation_bytes = 0;  // per micro-batch
};

// The class rows of a head that one device has: a range of whole class blocks (docs/internals/determinism.md, "Class
// blocks").
struct HeadShard {
  int head = 0;
  int shard = 0;
  int device = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  int64_t kept_blocks = 0;  // HeadShape::kept_blocks; 0 without a backward pass
  bool operator==(const HeadShard&) const = default;
};

struct HeadPlan {
  int head = 0;                 // index in Graph::heads
  NodeId node;                  // the classifier
  NodeId loss;                  // invalid if the loss does not use this head
  std::vector<NodeId> metrics;  // in inference also lists of best classes (topk), which have no label
  ValueId feature;
  ValueId feature_grad;  // the graph's input "<head>.dx"; invalid if nothing before the head is trained
  ValueId logits;
  ValueId label;       // invalid if neither loss nor metrics are computed
  ValueId row_factor;  // the input with the factor on the loss of each row; invalid if all rows have factor 1
  ParamId weight;
  ParamId bias;  // invalid for cosine heads
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t class_block = 0;    // ClassBlocks::size from the module (graph/layouts/head_shape.h)
  int64_t rows = 0;           // h: rows of one head pass; h == batch gives the fused update
  bool update_sweep = false;  // rows are updated in a sweep at the end of the step (h < batch, or clip counts heads)
  int64_t top_k = 1;          // number of best classes that are kept per row
  bool bf16 = false;          // HeadShape::bf16
  // Copies of the fields of HeadShape with these names.
  int64_t active = 0;
  int64_t neighbours = 0;
  bool exact_graph = true;        // ActiveSpec::exact
  int64_t probes = kUsualProbes;  // ActiveSpec::probes
  bool log_q = false;
  Untouched untouched = Untouched::kAsIs;
  RowFormat weights = RowFormat::kF32;
  RowFormat states = RowFormat::kF32;
  int state_count = 2;    // optimizer states of each weight for which passes have memory
  double row_weight = 1;  // HeadShape::row_weight
  std::vector<HeadShard> shards;
  bool frozen = false;  // gradients pass through it, but it is not updated (Parameter::frozen)
  bool mapped = false;  // RowPlace::kMapped: see is_mapped

  ClassBlocks blocks() const { return {.classes = classes, .size = class_block}; }
  // Class rows of the shard whose logits are kept.
  int64_t kept_classes(const HeadShard& shard) const {
    return std::min(shard.row_end - shard.row_begin, shard.kept_blocks * class_block);
  }
  bool operator==(const HeadPlan&) const = default;
};

// The memory of a device, which is one mapping.
struct Arena {
  int device = 0;
  Bytes bytes = 0;     // allocated bytes; buffers in files (is_mapped) are not in the arena
  Bytes live_max = 0;  // largest sum of the sizes of buffers that are alive at one time
};

struct Program {
  bool training = true;
  bool deterministic = false;
  int devices = 1;
  std::vector<int> threads;  // number of workers of each device
  int64_t batch = 0;         // global rows per step
  int64_t norm_rows = 0;     // g: rows of a row block
  int micro_batches = 1;
  int replicas = 1;
  // Consecutive replicas on one node that sum their gradients before nodes do (planner/program/replica_sums.h); 1: all
  // replicas sum at once.
  int node_replicas = 1;
  // Consecutive replicas on one node that sum the gradients before compression, so that the node sends one set of pairs
  // (planner/program/compression_owners.h); 1: each replica compresses and sends its own.
  int sender_replicas = 1;
  // Machine::device_nodes, set by `emit` and by the reader of plan files, which store them with the machine. A program
  // only compares them for equality.
  std::vector<int> device_nodes;
  int ranks = 1;  // processes that run it; set by the run, not part of the plan
  // The number of gradient partials of all replicas together. With --deterministic there are 4, or one per row block if
  // the batch has fewer blocks. Otherwise a replica has one for each worker of its device, but at most one for each row
  // block of a micro-batch, and at most kMostPartials.
  int partials = 1;
  PipelineKind schedule = PipelineKind::kGpipe;
  std::vector<Stage> stages;
  std::vector<HeadPlan> heads;
  std::vector<Buffer> buffers;  // index: BufferId
  std::vector<Instruction>
      instructions;           // index: InstructionId; the instructions of one (device, stream) run in this order
  std::vector<Arena> arenas;  // index: device
  bool overlap = true;

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id.index)]; }
  const Instruction& instruction(InstructionId id) const { return instructions[static_cast<size_t>(id.index)]; }
  // The rank that has a device: ranks have contiguous runs of devices, as equal in length as possible.
  int rank_of(int device) const { return static_cast<int>(int64_t{device} * ranks / devices); }
  int64_t micro_batch_rows() const { return batch / micro_batches; }
  int senders() const { return replicas / sender_replicas; }  // senders of compressed gradients
  int micro_batches_of_replica() const { return micro_batches / replicas; }
  int64_t partials_of_replica() const { return partials / replicas; }
  // The gradient partial, counted over all replicas, that row block `block` of the batch adds to
  // (docs/internals/determinism.md, "Gradient partials").
  int64_t partial_of(int64_t block) const {
    if (deterministic) {
      return block * partials / (batch / norm_rows);
    }
    const int64_t blocks = batch / norm_rows / micro_batches;
    const int64_t replica = block / blocks / micro_batches_of_replica();
    return replica * partials_of_replica() + block % blocks * partials_of_replica() / blocks;
  }
};

// The range of classes of each term that a kReduceDx or kSumDx adds, in the order of its operands.
std::vector<ClassRange> classes_of_dx_terms(const Instruction& sum, const HeadPlan& head);

// The shape of a shard's passes over `rows` rows (HeadPlan::rows, or the batch for the update sweep). The planner sizes
// buffers and the backend makes kernels for this shape.
HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows);

// Whether a buffer contains class rows, or their states, that are in a file (HeadPlan::mapped). Such buffers are whole
// pages of the address space after the arena of their device and do not count as memory of the plan. `mapped_bytes`
// returns the total size of these buffers of a device.
bool is_mapped(const Program& program, const Buffer& buffer);
Bytes mapped_bytes(const Program& program, int device);
// The layout of the file with the class rows of head `head`: a section for each tensor in the file (class weights and
// their states), which has the tensor's name and the rows of all shards. The layout for an inference program has fewer
// sections. REQUIRES: the rows of the head are mapped.
RowsLayout rows_layout(const Program& program, const Graph& graph, size_t head);

// The shapes of an exact and of an approximate build of the lists of nearest classes, on the cores of all devices.
KnnShape knn_shape(const Program& program, const HeadPlan& head);
KnnCellsShape knn_cells_shape(const Program& program, const HeadPlan& head);
// The number of workers of all devices of a rank.
int workers_of_rank(const Program& program, int rank);

const char* name_of(Kind kind);  // "all_gather", "head-forward"

// Returns the program as text that is equal for equal programs: each instruction with its operands, in order (`xrun
// show --emit program`).
std::string print(const Program& program, const Graph& graph);

}  // namespace xrun::planner
