// Program: the instructions of every device, in order, with the buffers that they read and write. The planner makes it;
// the verifier, the simulator and the executor read the same value.
//
// Order. The list of instructions is a legal sequential order: an instruction depends only on earlier ones, and the
// members of a group (a collective, or a send followed by its receive) are adjacent. The executor may use any other
// order that respects `deps` and `releases`, keeps the order within each (device, stream), and starts an exchange only
// when all members of its group are ready.
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
#include <span>
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
#include "planner/program/buffer.h"
#include "planner/program/instruction.h"

namespace xrun::planner {

// The maximum number of gradient partials (accumulators that workers fill concurrently) of one replica. More partials
// would shorten the waits of workers for one another, but not enough to justify their memory.
inline constexpr int kMostPartials = 16;
// The maximum number of replicas, which is also the maximum number of readers of a tied weight: a kernel that sums over
// replicas or readers has space for this many addresses.
inline constexpr int kMostReplicas = kMostReaders;

// A contiguous range of forward nodes in printed order, with the backward nodes that belong to them.
struct Stage {
  int index = 0;
  std::vector<int> devices;     // device of each replica
  std::vector<NodeId> forward;  // forward nodes in order
  std::vector<NodeId> backward;
  std::vector<NodeId> recomputed;  // forward nodes run again in the backward pass, in order
  std::vector<ValueId> saved;      // values kept per micro-batch for the backward pass
  std::vector<ValueId> received;   // activations from other stages (skips included)
  Seconds forward_time = 0;        // time of the forward pass of one micro-batch
  Seconds backward_time = 0;       // includes the nodes that run again
  // The parts of these times; index: that of `forward`. `backward_times` has the backward nodes of each forward node;
  // a node that runs again takes its forward time once more. Empty for inference and in earlier plan files.
  std::vector<Seconds> forward_times;
  std::vector<Seconds> backward_times;
  Bytes parameter_bytes = 0;
  Bytes activation_bytes = 0;  // per micro-batch

  // Returns whether each node runs again in the backward pass; index: that of `forward`.
  std::vector<bool> runs_again() const;
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
  NodeId node;                  // the node of the classifier
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
  bool update_sweep = false;  // rows are updated in a sweep at the end of the step (needs_update_sweep)
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
  bool frozen = false;  // gradients pass through the head, but it is not updated (Parameter::frozen)
  bool mapped = false;  // RowPlace::kMapped: see is_mapped

  ClassBlocks blocks() const { return {.classes = classes, .size = class_block}; }
  // Returns the number of class rows of the shard whose logits are kept.
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
  // Machine::gpu, which is set and stored like `device_nodes`. Devices of a kind of GPU have memory of their own.
  std::string gpu;
  int ranks = 1;  // processes that run the program; set at run time, not part of the plan
  // The number of gradient partials of all replicas together. With --deterministic there are 4, or one per row block if
  // the batch has fewer blocks. Otherwise a replica has one for each worker of its device, but at most one for each row
  // block of a micro-batch, and at most kMostPartials.
  int partials = 1;
  PipelineKind schedule = PipelineKind::kGpipe;
  int warm_up = 0;  // PipelineHint::warm_up
  std::vector<Stage> stages;
  std::vector<HeadPlan> heads;
  std::vector<Buffer> buffers;  // index: BufferId
  std::vector<Instruction>
      instructions;           // index: InstructionId; the instructions of one (device, stream) run in this order
  std::vector<Arena> arenas;  // index: device
  bool overlap = true;

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id.index)]; }
  const Instruction& instruction(InstructionId id) const { return instructions[static_cast<size_t>(id.index)]; }
  // Returns the letter of a pass of a stage: "F"; "B", or "I" and "W" for the two parts of a backward pass in a
  // schedule that splits them (gradients of inputs, gradients of weights only).
  const char* letter_of(const Instruction& pass) const;
  // Returns the number of stages on each device that has stages.
  int stages_of_device() const;
  // Returns the hint that asks for the pipeline of the program.
  PipelineHint pipeline() const;
  // Returns the rank that has a device. Ranks have contiguous ranges of devices, as equal in length as possible.
  int rank_of(int device) const { return static_cast<int>(int64_t{device} * ranks / devices); }
  int64_t micro_batch_rows() const { return batch / micro_batches; }
  int senders() const { return replicas / sender_replicas; }  // senders of compressed gradients
  int micro_batches_of_replica() const { return micro_batches / replicas; }
  int64_t partials_of_replica() const { return partials / replicas; }
  // Returns the gradient partial, counted over all replicas, to which row block `block` of the batch adds
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

// Returns the range of classes of each term that a kReduceDx or kSumDx adds, in the order of its operands.
std::vector<ClassRange> classes_of_dx_terms(const Instruction& sum, const HeadPlan& head);

// Returns the shape of a shard's passes over `rows` rows (HeadPlan::rows, or the batch for the update sweep). The
// planner sizes buffers and the backend makes kernels for this shape.
HeadShape head_shape(const Program& program, const Graph& graph, const HeadPlan& head, const HeadShard& shard,
                     int64_t rows);

// Scratch of a kReduceStats, and of a kReduceDx or kSumDx that adds terms with these classes; 0 on CPUs.
Bytes stats_scratch_bytes(const Program& program, const Graph& graph, const HeadPlan& head);
Bytes dx_scratch_bytes(const Program& program, const Graph& graph, const HeadPlan& head,
                       std::span<const ClassRange> terms);

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
// Returns the number of workers of all devices of a rank.
int workers_of_rank(const Program& program, int rank);

// Returns the program as text that is equal for equal programs: each instruction with its operands, in order (`xrun
// show --emit program`).
std::string print(const Program& program, const Graph& graph);

}  // namespace xrun::planner
