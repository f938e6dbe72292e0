// An instruction of a program, with its operands and the instructions that it waits for.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/source.h"
#include "graph/base/units.h"
#include "graph/graph.h"
#include "planner/program/operand.h"

namespace xrun::planner {

struct InstructionTag;
using InstructionId = Id<InstructionTag>;

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
  // Each member receives the blocks of all other members. The blocks are one of:
  //   - features or labels of a head pass, for one micro-batch of every replica (a pass with h = batch needs M / R such
  //     gathers);
  //   - statistics of heads, norms, slices of summed gradients or pairs of compressed gradients, in place;
  //   - batch statistics;
  //   - gradients of a tied weight, exchanged among the stages that read this weight.
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
  int replica = 0;            // -1: the instruction belongs to no single replica
  int micro_batch = -1;       // stage passes, sends and receives: counted globally, 0 .. micro_batches - 1
  int head = -1;              // head passes, their copies and exchanges: index in Program::heads
  int head_pass = -1;         // index of the head's pass; -1: all rows of the batch
  int gather = -1;            // exchanges and sums of features or their gradient: the micro-batch inside each replica
  int shard = -1;             // passes: their shard; sums of dX on a node, and the exchanges before: the first shard
  int group = -1;             // exchanges: number that all members share; a send and its receive also share one
  std::vector<NodeId> nodes;  // stage passes: nodes in order of execution
  std::vector<Operand> operands;
  std::vector<BufferId> reads;   // buffers of `operands` that are read, each once (derive_accesses)
  std::vector<BufferId> writes;  // a buffer that a computation writes before it reads it is only in `writes`
  // Before this instruction begins, the computations in `deps` must have ended, the exchanges in `deps` must be
  // received, and the exchanges in `releases` must be released. Emit derives both lists from reads, writes and the
  // order of streams.
  std::vector<InstructionId> deps;
  std::vector<InstructionId> releases;
  Flops flops = 0;
  Bytes bytes = 0;  // bytes that communication moves
  Seconds predicted = 0;
  Span span;  // the place in the model text from which the instruction comes

  // Returns the number of operands, where each block of a run counts.
  int64_t blocks() const;
};

// Fills `reads` and `writes` from the operands.
void derive_accesses(Instruction& instruction);

const char* name_of(Kind kind);  // "all_gather", "head-forward"

}  // namespace xrun::planner
