// Operands: a table of the bytes that each instruction reads or writes. Emission makes the table once and plan files
// store it. The verifier derives it again and compares. The executor only adds the addresses of the buffers.
//
// Address. An operand is at address: base of `buffer` + `offset` + `step` · k. The field `by` states what k counts: row
// blocks or gradient partials from the first one of the instruction, or workers of the device. `bytes` is the size at
// one such address. A `buffer` with purpose kInput is position 0 of the loader's ring; at run time its base is the
// address of the ring position that the step uses.
//
// Runs. An operand of an exchange stands for `count` blocks of `bytes` each: block k is sent to, or received from,
// device `index` + `stride` · k, and is at `offset` + `step` · k of the buffer. The members of an exchange usually send
// one block to all other members, or receive blocks of equal size from them, so runs shorten the table by a factor of
// about the number of members. All other operands have a count of 1.
//
// Order. A stage pass has the operands kZeroed; then for each node its inputs and its outputs, in order; then kScratch.
// The operands of all other instructions are in the order in which the verifier derives them (planner/verify/).
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/id.h"
#include "graph/base/units.h"
#include "graph/graph.h"

namespace xrun::planner {

struct BufferTag;
using BufferId = Id<BufferTag>;

// The role of an operand in its instruction.
enum class Role : uint8_t {
  // Stage passes.
  kZeroed,   // all partials of a gradient to which this backward pass adds first
  kInput,    // input `index` of `node`: a value, a parameter or its prepared form
  kOutput,   // output `index` of `node`
  kScratch,  // scratch memory: a slice per worker for a stage or an update, the whole buffer for a head pass
  // Head passes. The operands have the rows of the pass or, in kHeadNorms and kHeadUpdate, those of the batch.
  kFeature,  // features; also in kReduceDx, for the rows whose gradient is summed
  kLabel,
  kSoftmax,    // {max, 1 / sum} of each row
  kStats,      // statistics of shard `index`
  kLogits,     // logits kept for the backward pass
  kSelection,  // the active classes of the shard; in kReduceStats, of one shard on its device
  kLists,      // the nearest classes of every class
  kMass,       // the RowMass (ops/head/mass.h) of each row
  // The dX partials of shard `index`, one per subtree of its classes (graph/layouts/head_shape.h). In
  // kReduceDx and kSumDx the operand is the rows of the instruction's micro-batch in the first partial; the
  // rows in each next partial follow `step` bytes later. If several shards were summed before, `index` is the
  // first of them.
  kDx,
  kLoss,         // loss of each row
  kHits,         // hits of each row, for metric `node`
  kBestClasses,  // the best classes of each row, followed by their logits, for metric or classifier `node`
  kBestScores,
  // Updates of weights of a stage or a shard.
  kGradient,      // gradient of `param`, per partial
  kWeight,        // weight `param`
  kState,         // state `index` of the optimizer for `param`
  kPrepared,      // the prepared form of `param` for input `index` of `node`; for a head (without node): 1 / norms
  kNorms,         // sums of squares of `param` or, if `param` is invalid, of all tensors that are counted
  kRunningState,  // input `index` of `node`, folded from kStatistics
  kStatistics,    // output `index` of `node`, for all row blocks of the batch
  // kCopy: each kFrom is followed by its kTo.
  kFrom,
  kTo,
  // Exchanges. The i-th block that member A sends to device B matches the i-th block that member B receives from device
  // A, in the order of their operands, and has equal size; `index` is the first other device. A member may send to
  // itself.
  kSent,
  kReceived,
  // Sums over replicas. kSum is the replica's own slice of the gradient
  // of `param`, summed in place; kTerm is that slice from replica
  // `index`. In kSumTied, kSum is the gradient of the stage's copy of a
  // tied weight, and kTerm the gradient of another reader; `index` counts
  // the readers.
  kSum,
  kTerm,
  kFeatureGradient,  // the gradient of the features, which kReduceDx sums
  kRowFactor,        // head pass: the factor on the loss of each row
  kScales,           // head pass: scales of the shard's rows in fp8
  kLast,             // head pass: the step that last updated each of the shard's rows
  kPairs,            // pairs of `param`: of the replica's sender in kCompress, of all senders in kUpdate
};

enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: reads and writes

// The address of an operand is offset + k * step. k is the number of the row block, the partial or the worker, or 0.
enum class By : uint8_t { kNothing, kBlock, kPartial, kWorker };

struct Operand {
  Role role = Role::kInput;
  Access access = Access::kRead;
  By by = By::kNothing;
  BufferId buffer;
  NodeId node;
  ParamId param;
  int32_t index = -1;
  int16_t count = 1;
  int16_t stride = 0;
  Bytes offset = 0;
  Bytes bytes = 0;
  Bytes step = 0;
  bool operator==(const Operand&) const = default;

  // The other device and the offset of block `k` of an exchange.
  int device(int k) const { return index + stride * k; }
  Bytes place(int k) const { return offset + step * k; }
};

// Appends a block to the operands of an exchange, or adds it to the run of the last operand of its role. Only the last
// two operands are tried, so sent and received blocks may alternate. The order of the blocks of each role is kept.
void append_block(std::vector<Operand>& operands, const Operand& block);
// Appends a run, but leaves out its block for `device`.
void append_others(std::vector<Operand>& operands, const Operand& run, int device);

// Calls `visit` with the begin and the end of each range of bytes that an operand of an exchange names.
template <typename Visit>
void for_each_range(const Operand& operand, const Visit& visit) {
  const bool together = operand.step == 0 || operand.step == operand.bytes;
  const Bytes bytes = operand.step == 0 ? operand.bytes : operand.bytes * operand.count;
  for (int k = 0; k < (together ? 1 : operand.count); ++k) {
    visit(operand.place(k), operand.place(k) + (together ? bytes : operand.bytes));
  }
}

const char* name_of(Role role);  // "feature"

}  // namespace xrun::planner
