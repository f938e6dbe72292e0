// Classifies the values of a graph that is cut into stages: the values that a stage keeps, receives and sends, and the
// values that exist only in the scratch memory of a worker.
#pragma once

#include <vector>

#include "graph/base/result.h"
#include "planner/program/decision.h"
#include "planner/program/program.h"

namespace xrun::planner {

// A value that one stage makes and another stage reads. It is sent for each micro-batch as soon as it is made.
struct Crossing {
  ValueId value;
  int from = 0;
  int to = 0;
  bool backward = false;       // whether a backward pass makes the value
  bool read_forward = false;   // the receiver's forward pass reads it
  bool read_backward = false;  // the receiver's backward pass reads it (true for all gradients)
};

// The values of one stage. F and B are its forward and backward passes. A value made in F is in `kept` if it has a
// buffer, because it is saved for B, sent, gathered for a head, a result or a batch statistic; otherwise it is in
// `forward_locals`. All lists are in node order, without repetition.
struct StageFlow {
  std::vector<ValueId> inputs_forward;  // inputs of F, fed by data
  std::vector<ValueId> inputs_backward;
  std::vector<ValueId> kept;            // made in F, in a buffer
  std::vector<ValueId> saved;           // made in F, read in B
  std::vector<ValueId> statistics;      // per-block statistics made in F; the update folds them into running statistics
  std::vector<ValueId> results;         // per-row loss, metrics, outputs made in F
  std::vector<ValueId> sent_gradients;  // made in B for other stages
  std::vector<ValueId> head_gradients;  // inputs "<head>.dx" read in B
  std::vector<ParamId> gradients;       // parameters whose gradient B accumulates
  std::vector<ValueId> forward_locals;
  std::vector<ValueId> backward_locals;
  std::vector<ParamId> params;  // parameters of all nodes of the stage
};

struct ValueFlow {
  std::vector<StageFlow> stages;
  std::vector<Crossing> crossings;  // sorted by producer, then receiver
  std::vector<int> maker;           // stage of each value's producer; -1: no producer, or a head pass
};

// Finds the values of each stage of `decision`. `results` are the values that are read after the step. Errors: kContent
// XG0198 for a graph that cannot be cut into stages, because a stage reads logits of a sharded head, or because a
// weight's gradient is not a sum over samples.
Result<ValueFlow> trace_values(const Graph& graph, const Decision& decision, const std::vector<ValueId>& results);

}  // namespace xrun::planner
