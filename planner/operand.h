// Operands: the bytes that an instruction works on, as a table. Emission decides them once, plan files store them, the
// verifier derives them again and compares, and the executor only adds the address of the buffer.
//
// Address of an operand: base of `buffer` + `offset` + `step` · k, where k counts the units in `by`: row blocks or
// gradient partials from the first one of the instruction, or workers of the device. `bytes` is the size at one such
// address. A `buffer` with purpose kInput is position 0 of the loader's ring: its base is that of the step's position.
//
// Order. Stage passes: kZeroed; then for each node its inputs and its outputs, in order; then kScratch. The order of
// all others is the one in which the verifier derives them (planner/verify/).
#pragma once

#include <cstdint>

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
  kScratch,  // scratch of the kernels of a stage or of an update, a slice per worker; of a head pass, as a whole
  // Head passes; rows of the pass, or of the batch in kHeadNorms and kHeadUpdate.
  kFeature,  // also in kReduceDx: the rows whose gradient is summed
  kLabel,
  kSoftmax,    // {max, 1 / sum} of each row
  kStats,      // statistics of shard `index`
  kLogits,     // kept logits
  kSelection,  // the active classes of the shard; in kReduceStats: those of one shard on its device
  kLists,      // the nearest classes of every class
  kMass,       // the RowMass (ops/head/mass.h) of each row
  // dX partials of shard `index`, one per subtree of its classes (graph/head_shape.h). In kReduceDx and kSumDx: the
  // rows of its micro-batch in the first of them, which repeat every `step` bytes. For several summed shards `index` is
  // the first.
  kDx,
  kLoss,         // loss of each row
  kHits,         // hits of each row, for metric `node`
  kBestClasses,  // the best classes of each row, followed by their logits, for metric or classifier `node`
  kBestScores,
  // Updates of weights of a stage or a shard.
  kGradient,      // gradient of `param`, per partial
  kWeight,        // weight `param`
  kState,         // state `index` of the optimizer for `param`
  kPrepared,      // the form of `param` for input `index` of `node`; for a head (without node): 1 / norms
  kNorms,         // sums of squares of `param`; without it, of all tensors counted by the clip
  kRunningState,  // input `index` of `node`, folded from kStatistics
  kStatistics,    // output `index` of `node`, for all row blocks of the batch
  // kCopy: each kFrom is followed by its kTo.
  kFrom,
  kTo,
  // Exchanges. The i-th kSent of a member to device `index` is the i-th kReceived of that device's member from it, with
  // equal size. A member may send to itself.
  kSent,
  kReceived,
  // Sums over replicas: the own slice of the gradient of `param`, in place, and that slice from replica `index`. In
  // kSumTied: the gradient of the stage's copy, and those of other readers; `index` counts the readers.
  kSum,
  kTerm,
  kFeatureGradient,  // sum of kReduceDx
  kRowFactor,        // head pass: the factor on the loss of each row
  kScales,           // head pass: scales of the shard's rows in fp8
  kLast,             // head pass: the step that last updated each of the shard's rows
  kPairs,            // pairs of `param`: in kCompress the own sender's, in kUpdate those of all senders
};

enum class Access : uint8_t { kRead, kWrite, kUpdate };  // kUpdate: reads and writes

// The count k in the address of an operand: nothing, row blocks, gradient partials, or workers.
enum class By : uint8_t { kNothing, kBlock, kPartial, kWorker };

struct Operand {
  Role role = Role::kInput;
  Access access = Access::kRead;
  By by = By::kNothing;
  BufferId buffer;
  NodeId node;
  ParamId param;
  int32_t index = -1;
  Bytes offset = 0;
  Bytes bytes = 0;
  Bytes step = 0;
  bool operator==(const Operand&) const = default;
};

const char* name_of(Role role);  // "feature"

}  // namespace xrun::planner
