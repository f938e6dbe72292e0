// Program: the instructions of every device, in order, with the buffers that they read and write. The planner's promise;
// the verifier, the simulator and the executor are three readers of the same value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/graph.h"

namespace xrun::planner {

struct BufferTag;
using BufferId = Id<BufferTag>;
struct InstructionTag;
using InstructionId = Id<InstructionTag>;

inline constexpr int kHost = -1;

// What a buffer is for; `persistent` purposes live across steps.
enum class Purpose : uint8_t {
  kWeight,         // f32 master weight of a parameter, whole            persistent
  kState,          // running statistics                                 persistent
  kOptimizer,      // one state of the optimizer for a weight            persistent
  kPrepared,       // a kernel's prepared form of a weight               persistent
  kGradient,       // lane accumulators of a weight's gradient [lanes of this replica, ...], or one without the flag
  kHeadWeight,     // rows of this shard                                 persistent
  kHeadOptimizer,  // persistent
  kHeadPrepared,   // rounded rows of this shard                         persistent
  kInput,          // a batch input or label: the loader's slot          persistent (ring of the host arena)
  kActivation,     // value of a micro-batch, kept from F to B or crossing a stage
  kGathered,       // features, labels of one head pass, on every shard's device
  kHeadStats,      // per row and subtree: max, class, exp-sum, target logit
  kHeadGradient,   // dX partials of the shard's subtrees; dW where planned
  kHeadScratch,    // tiles and working rows of a head pass
  kScratch,        // block-local values and kernel scratch, one slice a worker
  kResult,         // per-row loss and metrics of the step (small, read by the trainer)
};

struct Buffer {
  BufferId id;
  int device = 0;            // kHost: the host arena (inputs, labels)
  Purpose purpose = Purpose::kActivation;
  Bytes bytes = 0;
  Bytes offset = 0;          // in the arena of `device`
  // First and last instruction (index in Program::instructions order of that device's time line) that touches it; for
  // persistent buffers the whole step.
  int32_t first_use = -1;
  int32_t last_use = -1;
  bool persistent = false;
  ValueId value;             // the graph's value that it holds, where it holds one
  ParamId param;
  int32_t slot = 0;          // kOptimizer: which state; kPrepared: which input of `node`; kInput: ring position
  NodeId node;               // kPrepared
  int32_t micro_batch = -1;  // -1: all rows of the replica; the executor adds the offset of the micro-batch or block
  int32_t replica = 0;
  int32_t shard = -1;        // head buffers
  std::string name;          // for print-outs
};

enum class Kind : uint8_t { kRun, kSend, kRecv, kAllGather, kReduceScatter, kAllReduce, kCopy, kFree, kUpdate };
enum class Stream : uint8_t { kCompute, kComm };

// What a kRun does.
enum class Pass : uint8_t {
  kNone,
  kForward,       // nodes of the stage on one micro-batch, block by block
  kBackward,      // recomputed forward nodes and backward nodes of the stage on one micro-batch
  kHeadForward,   // block statistics of one shard for one head pass
  kHeadBackward,  // dX partials, and dW or the fused update, of one shard for one head pass
  kHeadUpdate,    // dW + update sweep of the step (where kHeadBackward does not update)
  kReduceStats,   // folds the gathered statistics into log-sum-exp, loss, accuracy: on every shard's device
};

struct Instruction {
  InstructionId id;
  Kind kind = Kind::kRun;
  Pass pass = Pass::kNone;
  int device = 0;
  Stream stream = Stream::kCompute;
  int stage = -1;
  int replica = 0;
  int micro_batch = -1;       // of the replica, counted globally: 0 .. micro_batches - 1
  int shard = -1;             // head passes
  int group = -1;             // collectives: members of one collective share a number; send/recv pairs, too
  std::vector<NodeId> nodes;  // kRun of a stage: in order of execution
  std::vector<BufferId> reads;
  std::vector<BufferId> writes;
  std::vector<InstructionId> deps;  // what must have completed: derived from reads, writes and stream order by emit
  Flops flops = 0;
  Bytes bytes = 0;            // moved, for communication
  Seconds predicted = 0;
  Span span;                  // where the text asks for it
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
  std::vector<int> devices;            // one per replica
  std::vector<NodeId> forward;         // in order
  std::vector<NodeId> backward;
  std::vector<NodeId> recomputed;      // forward nodes run again in the backward pass, in order
  std::vector<ValueId> saved;          // values kept per micro-batch for the backward pass
  std::vector<ValueId> received;       // activations from other stages (skips included)
  BlockLayout forward_layout;
  BlockLayout backward_layout;
  Seconds forward_time = 0;            // one micro-batch
  Seconds backward_time = 0;
  Bytes parameter_bytes = 0;
  Bytes activation_bytes = 0;          // of one micro-batch
};

// A row range of a head on a device: whole class blocks (DETERMINISM 6).
struct HeadShard {
  int head = 0;
  int shard = 0;
  int device = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

struct HeadPlan {
  int head = 0;               // index in Graph::heads
  NodeId node;                // the classifier
  NodeId loss;                // none when the loss does not use this head
  std::vector<NodeId> metrics;
  ValueId feature;
  ValueId label;
  ParamId weight;
  ParamId bias;               // none for cosine heads
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t class_block = 0;
  int64_t rows = 0;           // h: rows of one head pass; h == batch gives the fused update
  bool update_sweep = false;  // h < batch: dW and update in one sweep at the end of the step
  std::vector<HeadShard> shards;
};

// A device's memory: one mapping.
struct Arena {
  int device = 0;
  Bytes bytes = 0;      // what is allocated
  Bytes live_max = 0;   // largest sum of live buffers
};

struct Program {
  bool training = true;
  bool deterministic = false;
  int devices = 1;
  std::vector<int> threads;      // workers of each device
  int64_t batch = 0;             // global rows of a step
  int64_t block_rows = 0;        // g
  int micro_batches = 1;
  int replicas = 1;
  int lanes = 1;                 // of gradients over all replicas: 4 with --deterministic (or as many as row blocks), else one a replica
  PipelineKind schedule = PipelineKind::kGpipe;
  std::vector<Stage> stages;
  std::vector<HeadPlan> heads;
  std::vector<Buffer> buffers;             // by BufferId
  std::vector<Instruction> instructions;   // by InstructionId; the instructions of one (device, stream) run in this order
  std::vector<Arena> arenas;               // by device
  bool overlap = true;

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<size_t>(id.index)]; }
  const Instruction& instruction(InstructionId id) const { return instructions[static_cast<size_t>(id.index)]; }
  int64_t micro_batch_rows() const { return batch / micro_batches; }
};

// Stable text of the program, one instruction a line (`xrun show --emit program`).
std::string print(const Program& program, const Graph& graph);

}  // namespace xrun::planner
