// Program: the instructions of every device, in order, with the buffers that they read and write. The planner makes it;
// the verifier, the simulator and the executor read the same value.
//
// Order. The list of instructions is a legal sequential order: every dependency points backward and the members of a
// group (collectives; a send and its receive, the send first) stand next to one another. Only these constraints bind:
// `deps` and `releases`, the order of each (device, stream), and that an exchange needs all members of its group.
//
// Exchanges. A member is posted when its turn in its stream has come, and completes twice: it is received when all
// blocks that it receives are in their places, and released when the blocks that it sends may be overwritten. A reader
// of received blocks waits for `received`, a writer over sent blocks for `released`. In the stream kComm the next
// exchange waits only until this one is posted; in kCompute (`overlap` off) the next instruction waits for both.
//
// Rows. Replica r owns row blocks [r·n/R, (r+1)·n/R) of the n blocks of the batch and micro-batches [r·M/R, (r+1)·M/R).
// A buffer with `micro_batch` m >= 0 has the rows (or G blocks) of micro-batch m; with -1 all rows of `replica`; and
// with -1 and `replica` -1 all rows of the global batch, in order.
//
// Head passes. Pass j takes h = HeadPlan::rows rows: all of the batch (h = batch, j = 0), or the
// j-th micro-batch of every replica (h = R·batch/M), rows in ascending global order. A head buffer with `head_pass`
// j >= 0 has the h rows of pass j; with -1 all rows of the batch, of which a pass with h < batch takes [j·h, (j+1)·h)
// (only where R = 1 or h = batch).
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/graph.h"
#include "graph/head_shape.h"
#include "graph/knn_cells_layout.h"
#include "graph/passes/untie.h"
#include "graph/rows_layout.h"
#include "planner/operand.h"

namespace xrun::planner {

struct InstructionTag;
using InstructionId = Id<InstructionTag>;

inline constexpr int kHost = -1;

// The most partials of one replica: more accumulators would cost more memory than their shorter waits are worth.
inline constexpr int kMostPartials = 16;
// The most terms of one sum over replicas, or over the readers of a tied weight: sums have space for this many
// addresses.
inline constexpr int kMostReplicas = kMostReaders;

// The purpose of a buffer; those marked `persistent` live across steps.
enum class Purpose : uint8_t {
  kWeight,         // f32 master weight of a parameter, whole            persistent
  kState,          // running statistics                                 persistent
  kOptimizer,      // one state of the optimizer for a weight            persistent
  kPrepared,       // a kernel's prepared form of a weight               persistent
  kGradient,       // a weight's partials on the replica, each aligned. `value` is the gradient, `param` the weight
  kHeadWeight,     // rows of this shard in HeadPlan::weights; the bias  persistent
  kHeadOptimizer,  // one state for them in HeadPlan::states             persistent
  kHeadPrepared,   // rounded rows of this shard                         persistent
  kInput,          // a batch input or label: the loader's slot          persistent (ring of the host arena)
  kActivation,  // value of a micro-batch, kept from F to B or sent to a stage; batch statistics (G) of operators with
                // `folds_states` have all blocks of the replica (micro_batch -1) and live until the update
  kGathered,    // replica -1: features and labels of a head pass on a shard's device; batch statistics of all replicas
  kTerms,  // terms of a sum from other devices. For a head (`head`, `micro_batch`): rows of dX partials, in the order
           // of their classes; `shard` >= 0: for the sum on a node, whose first shard it is. For a gradient (`param`):
           // the slices of the other members of a round, by replica, each round overwriting those of the previous one
           // (planner/replica_sums.h); or all of a tied weight's gradient that another stage makes
  kHeadLists,      // the nearest classes of every class, HeadPlan::neighbours of each; on the host       persistent
  kHeadSnapshot,   // f32 class weights for building the next lists; on the host                           persistent
  kHeadBuild,      // the next lists, then the working memory of their build; on the host                  persistent
  kHeadSelection,  // the active classes of a shard: head_selection (graph/head_shape.h); read by all passes of the
                   // step                                                                             persistent
  kHeadMass,       // RowMass (ops/head/mass.h) of the first pass's rows, if a step measures it            persistent
  kHeadStats,      // statistics of all shards of the head in order, each head_stats_bytes(shard) (graph/head_shape.h);
                   // one buffer per device and pass: a shard writes its own part, all_gather fills in the others
  kHeadSoftmax,    // {max, 1 / sum} of each row: from kReduceStats
  kHeadLogits,     // logits of a shard's kept class blocks in one pass: from kHeadForward to kHeadBackward
  kHeadGradient,   // dX partials of this device's shards in shard order, each head_gradient_bytes(shard)
  kHeadScratch,    // for one pass of one shard: head_scratch_bytes
  kScratch,        // one aligned slice per worker
  kNorms,      // f64 partial sums of squares for clip = norm, for all tensors that it counts, in name order: one per
               // 4 096 elements (the last may be short); tensors of heads: one for each class block
  kResult,     // per-row loss and metrics (and outputs, in inference), read by the trainer after the step: for one
               // replica, or for all (-1) if a head makes them. For a head's logits (inference): k = HeadPlan::top_k
               // best classes, i32 [batch, k], then their logits, f32 [batch, k]; outputs of a list are two results
  kHeadScale,  // scales of this shard's rows if they are fp8: f32       persistent
  kHeadLast,   // for the rows of this shard, with Untouched::kExact: i32, the step that last updated each; persistent
  kResidual,   // states of a compressed weight (graph/compression.h), in place of kOptimizer; each sender has its own,
               // on the replica that compresses. State 0: its velocity, 1: its residual, the accumulated gradient
               // that was not sent; persistent
  kPairs,      // GradientPairs of a compressed weight from all senders, pairs_bytes each
  kHeadSums,   // rows of a micro-batch in the dX partials of several shards of a node (planner/dx_terms.h), of which
               // `shard` is the first: from kSumDx
};

// Whether each step fills a persistent buffer anew: it contains nothing that a run has learned.
constexpr bool is_refilled(Purpose purpose) {
  return purpose == Purpose::kInput || purpose == Purpose::kHeadSelection || purpose == Purpose::kHeadMass;
}

struct Buffer {
  BufferId id;
  int device = 0;  // kHost: the host arena (inputs, labels)
  Purpose purpose = Purpose::kActivation;
  Bytes bytes = 0;
  Bytes offset = 0;  // offset in the arena of `device`
  // First and last instruction (index in Program::instructions order of that device's time line) that touches it; for
  // persistent buffers the whole step.
  int32_t first_use = -1;
  int32_t last_use = -1;
  bool persistent = false;
  ValueId value;  // the graph's value in it, if any
  ParamId param;
  int32_t state = -1;  // kOptimizer, kHeadOptimizer: index of the state
  int32_t ring = -1;   // kInput: position in the loader's ring
  NodeId node;         // kPrepared: node whose input `node_input` it is
  int32_t node_input = -1;
  int32_t micro_batch = -1;  // buffers of stages; -1: all rows of the replica
  int32_t replica = 0;       // -1: no replica
  int32_t head = -1;         // head buffers: index in Program::heads
  int32_t head_pass = -1;    // head buffers with the rows of one pass; -1: all rows of the batch
  int32_t shard = -1;        // head buffers of one shard
  std::string name;          // for print-outs
};

enum class Kind : uint8_t {
  // Passes of a stage over one micro-batch, row block by row block.
  kForward,   // the nodes of the stage
  kBackward,  // recomputed forward nodes, then backward nodes
  // Runs once a step, before all passes of a head: selects the active classes of a shard.
  kHeadSelect,
  // Passes of heads over the rows of pass `head_pass`, or over the batch; all but kReduceStats belong to one shard.
  kHeadForward,   // makes the statistics of its shard
  kReduceStats,   // on every device that needs it: statistics of all shards to softmax; on the head's first device also
                  // to loss and metrics, in inference to the best classes of the logits
  kHeadBackward,  // makes dX partials and, unless `update_sweep`, updates the shard's rows (the fused update)
  kHeadNorms,     // if clip counts heads: a sweep for the squares of the shard's gradient
  kHeadUpdate,    // dW + update sweep over all rows of the batch
  kHeadMass,      // at the end of a step that measures it: the active classes' share of the softmax
  kReduceDx,      // on the devices that made the features: dX partials of all shards to the gradient of one micro-batch
  // The end of a step, for a stage's replica.
  kFoldPartials,  // if a replica has several partials: sums them into partial 0, (0 + 1) + (2 + 3)
  kSumReplicas,   // its slice of the gradients, over the members of a round in a binary tree by replica
  kNorm,          // squares of its gradients (partial 0)
  kUpdate,        // optimizer, running statistics, prepared weights
  kCopy,          // rows of a head pass to or from their places among the rows of the batch
  // Exchanges: the instructions of one `group`, one for each member.
  kSend,
  kRecv,
  // Each member receives the blocks of all others: features or labels of a head pass, a micro-batch of every replica at
  // a time (a pass with h = batch is filled by M / R such gathers); statistics of heads and norms, in place; batch
  // statistics; slices of summed gradients, in place; pairs of compressed gradients, in place; gradients of a tied
  // weight, among the stages that read it.
  kAllGather,
  // Terms go to the device that sums them: dX partials to kReduceDx or, if `shard` >= 0, to kSumDx; slices of gradients
  // to kSumReplicas.
  kReduceScatter,
  // At the end of a step, before kSumReplicas for the gradients that are sent whole. This kind and the next ones come
  // last in this list because plan files store the numbers of kinds. Adds gradients of compressed weights, the
  // replica's or the sums of its sender, to their velocities and residuals, and takes out the largest elements.
  kCompress,
  // After kSumReplicas: adds the gradients of all readers of a tied weight in a binary tree, into the gradient of the
  // stage's copy.
  kSumTied,
  // On a node that did not make the features: sums the dX partials of several of its shards, of which `shard` is the
  // first, before they are sent to kReduceDx (planner/dx_terms.h).
  kSumDx,
};
enum class Stream : uint8_t { kCompute, kComm };

constexpr bool communicates(Kind kind) { return kind >= Kind::kSend && kind <= Kind::kReduceScatter; }
constexpr bool is_stage_pass(Kind kind) { return kind <= Kind::kBackward; }
constexpr bool is_head_pass(Kind kind) { return kind >= Kind::kHeadForward && kind <= Kind::kHeadUpdate; }
// All computations of a head: its passes, and those before and after them.
constexpr bool is_of_head(Kind kind) {
  return (kind >= Kind::kHeadSelect && kind <= Kind::kReduceDx) || kind == Kind::kSumDx;
}
// Passes over all rows of the batch at the end of a step.
constexpr bool is_head_sweep(Kind kind) { return kind == Kind::kHeadNorms || kind == Kind::kHeadUpdate; }

struct Instruction {
  InstructionId id;
  Kind kind = Kind::kForward;
  int device = 0;
  Stream stream = Stream::kCompute;
  int stage = -1;
  int replica = 0;            // -1: no replica
  int micro_batch = -1;       // stage passes, sends and receives: counted globally, 0 .. micro_batches - 1
  int head = -1;              // head passes, their copies and exchanges: index in Program::heads
  int head_pass = -1;         // index of the head's pass; -1: all rows of the batch
  int gather = -1;            // features and their gradient: index of the micro-batch inside each replica
  int shard = -1;             // passes of one shard; sums of dX on a node, and the exchanges before them: the first
  int group = -1;             // exchanges: shared by all members; also by a send and its receive
  std::vector<NodeId> nodes;  // stage passes: in order of execution
  std::vector<Operand> operands;
  std::vector<BufferId> reads;   // buffers of `operands`, each once: derive_accesses
  std::vector<BufferId> writes;  // a buffer that a computation writes before it reads it is only in `writes`
  // Before this instruction begins, `deps` must have ended (exchanges: have received), and the exchanges in `releases`
  // must have released the blocks that they send. Emit derives both from reads, writes and stream order.
  std::vector<InstructionId> deps;
  std::vector<InstructionId> releases;
  Flops flops = 0;
  Bytes bytes = 0;  // communication: bytes moved
  Seconds predicted = 0;
  Span span;  // the place in the text that asks for it
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

// A row range of a head on a device: whole class blocks (docs/internals/determinism.md, "Class blocks").
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
  int64_t class_block = 0;    // ClassBlocks::size from the module (graph/head_shape.h)
  int64_t rows = 0;           // h: rows of one head pass; h == batch gives the fused update
  bool update_sweep = false;  // dW and update in one sweep at the end of the step (h < batch, or clip counts heads)
  int64_t top_k = 1;          // best classes kept per row
  bool bf16 = false;          // HeadShape::bf16
  // HeadShape's fields with these names.
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

// A device's memory: one mapping.
struct Arena {
  int device = 0;
  Bytes bytes = 0;     // allocated: all but mapped buffers
  Bytes live_max = 0;  // largest sum of live buffers
};

struct Program {
  bool training = true;
  bool deterministic = false;
  int devices = 1;
  std::vector<int> threads;  // number of workers of each device
  int64_t batch = 0;         // global rows per step
  int64_t norm_rows = 0;     // g
  int micro_batches = 1;
  int replicas = 1;
  // Consecutive replicas on one node that sum their gradients before nodes do (planner/replica_sums.h); 1: all replicas
  // sum at once.
  int node_replicas = 1;
  // Consecutive replicas on one node that sum the gradients before compression, so that the node sends one set of pairs
  // (planner/compression_owners.h); 1: each replica compresses and sends its own.
  int sender_replicas = 1;
  // Machine::device_nodes, set by `emit` and by the reader of plan files, which store them with the machine. A program
  // only compares them for equality.
  std::vector<int> device_nodes;
  int ranks = 1;  // processes that run it; set by the run, not part of the plan
  // Gradient partials of all replicas: with --deterministic 4, or one per row block if there are fewer; else one for
  // each worker of a replica's device, at most one for each row block of a micro-batch and kMostPartials a replica.
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

// The classes of each term that a kReduceDx or kSumDx adds, in the order of its operands.
std::vector<ClassRange> classes_of_dx_terms(const Instruction& sum, const HeadPlan& head);

// The shape of a shard's passes over `rows` rows (HeadPlan::rows, or the batch for the update sweep), for which the
// planner sizes buffers and the backend makes kernels.
HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows);

// Whether a buffer contains class rows, or their states, that are in a file (HeadPlan::mapped). Such buffers are whole
// pages of the address space after the arena of their device, mapped_bytes in all; they do not count as memory of the
// plan.
bool is_mapped(const Program& program, const Buffer& buffer);
Bytes mapped_bytes(const Program& program, int device);
// The file of head `head`: a section for each such tensor, with the tensor's name, with the rows of all shards.
// REQUIRES: its rows are mapped. The layout of an inference program has fewer sections.
RowsLayout rows_layout(const Program& program, const Graph& graph, size_t head);

// The shape of a build of the lists of nearest classes, exact and approximate, on the processors of all devices.
KnnShape knn_shape(const Program& program, const HeadPlan& head);
KnnCellsShape knn_cells_shape(const Program& program, const HeadPlan& head);
// Workers of the devices of a rank.
int workers_of_rank(const Program& program, int rank);

const char* name_of(Kind kind);  // "all_gather", "head-forward"

// Stable text of the program, one instruction with its operands after the other (`xrun show --emit program`).
std::string print(const Program& program, const Graph& graph);

}  // namespace xrun::planner
