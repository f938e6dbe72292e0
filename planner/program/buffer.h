// A buffer of a program: a range of a device's memory, with its purpose and the values in it.
#pragma once

#include <cstdint>
#include <string>

#include "graph/base/id.h"
#include "graph/base/units.h"
#include "graph/graph.h"
#include "planner/program/operand.h"

namespace xrun::planner {

inline constexpr int kHost = -1;

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
  kHeadScratch,   // scratch memory for one pass of one shard, head_scratch_bytes in size; on GPUs also for sums over
                  // shards, stats_scratch_bytes or dx_scratch_bytes in size (shard -1)
  kScratch,       // scratch memory of kernels: one aligned slice per worker
  kNorms,         // f64 partial sums of squares of the gradients that are counted (norm_layout.h), in name order. A
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
  ValueId value;  // the value of the graph that the buffer contains, if any
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
  std::string name;          // name in printed programs
};

}  // namespace xrun::planner
