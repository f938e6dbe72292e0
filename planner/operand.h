// Operands: the bytes that an instruction works on, as a table. Emission decides them once, plan files carry them, the
// verifier derives them again and compares, and the executor only adds the address of the buffer.
//
// Address of an operand: base of `buffer` + `offset` + `step` · k, where k counts what `by` names: row blocks or
// gradient partials from the first one of the instruction, or workers of the device. `bytes` are those at one such
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
  kZeroed,   // all partials of a gradient that this backward pass is the first to add to
  kInput,    // input `index` of `node`: a value, a parameter or its prepared form
  kOutput,   // output `index` of `node`
  kScratch,  // of the kernels of a stage or of an update, a slice a worker; of a head pass, as a whole
  // Head passes; rows of the pass, or of the batch in kHeadNorms and kHeadUpdate.
  kFeature,  // also of kReduceDx: the rows whose gradient is summed
  kLabel,
  kSoftmax,    // {max, 1 / sum} of each row
  kStats,      // of shard `index`
  kLogits,     // those that are kept
  kSelection,  // the active classes of the shard; of kReduceStats: those of one shard on its device
  kLists,      // the nearest classes of every class
  kMass,       // the RowMass (ops/head/mass.h) of each row
  // dX partials of shard `index`, one a subtree of its classes (graph/head_shape.h). Of kReduceDx and kSumDx: the rows
  // of its micro-batch in the first of them, which repeat every `step` bytes. Of several summed shards `index` is the
  // first.
  kDx,
  kLoss,         // of each row
  kHits,         // of each row, by metric `node`
  kBestClasses,  // the best classes of each row, and next their logits, by metric or classifier `node`
  kBestScores,
  // Updates of weights, of a stage or a shard.
  kGradient,      // of `param`; by partial
  kWeight,        // of `param`
  kState,         // state `index` of the optimizer for `param`
  kPrepared,      // the form of `param` for input `index` of `node`; of a head (without node): 1 / norms
  kNorms,         // sums of squares of `param`; without it, of all tensors that the clip counts
  kRunningState,  // input `index` of `node`, folded from kStatistics
  kStatistics,    // output `index` of `node`, of all row blocks of the batch
  // kCopy: each kFrom is followed by its kTo.
  kFrom,
  kTo,
  // Exchanges. The i-th kSent of a member to device `index` is the i-th kReceived of that device's member from it, with
  // as many bytes. A member may send to itself.
  kSent,
  kReceived,
  // Sums over replicas: the own slice of the gradient of `param`, in place, and the same slice of replica `index`. Of
  // kSumTied: the gradient of the copy that the stage has, and those of other readers; `index` counts the readers.
  kSum,
  kTerm,
  kFeatureGradient,  // of kReduceDx: the sum
  kRowFactor,        // of a head pass: the factor on the loss of each row
  kScales,           // of a head pass: of the shard's rows in fp8
  kLast,             // of a head pass: the step that updated each of the shard's rows last
  kPairs,            // of `param`: of kCompress those of the own sender, of kUpdate those of all senders
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
