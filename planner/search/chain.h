// Chain: the forward nodes of a graph in printed order, with their times and sizes. A stage is a contiguous range of
// the chain (docs/internals/algorithms.md, "Chain of layers"). The nodes of the head pass are not in the chain.
#pragma once

#include <vector>

#include "graph/module.h"
#include "planner/cost/cost_model.h"

namespace xrun::planner {

struct Chain {
  std::vector<NodeId> nodes;                  // forward nodes of the stages
  std::vector<NodeId> head_nodes;             // heads and all nodes that read their logits
  std::vector<std::vector<NodeId>> backward;  // index: position; the backward nodes of the node, in order
  std::vector<int> position;                  // index: NodeId; a backward node has its forward node's; heads have -1

  // Times per row block and worker.
  std::vector<Seconds> forward_time;
  std::vector<Seconds> backward_time;
  // The part of `backward_time` in nodes that only compute gradients of weights, and the number of these nodes.
  std::vector<Seconds> weight_gradient_time;
  std::vector<int> weight_gradient_nodes;
  // The forward time of the nodes whose results a node reads if it runs again, directly or through one of them, and
  // that nothing keeps for the backward pass.
  std::vector<Seconds> inputs_again_time;
  // Bytes per row block of the outputs of each node that backward nodes read.
  std::vector<Bytes> saved;
  // Entry i of n + 1 has the bytes per row block that cross a cut before position i: the values that are made before
  // position i and read at position i or later, each counted once. Batch inputs do not count, since devices read them
  // from the host.
  std::vector<Bytes> boundary;
  std::vector<Bytes> parameters;  // f32 weights
  std::vector<Bytes> resident;    // weights, states, optimizer states, prepared forms, one gradient partial
  std::vector<Bytes> gradients;   // one gradient partial
  std::vector<Bytes> whole;       // the part of `gradients` that replicas sum without compression
  std::vector<Bytes> pairs;       // the pairs that a replica sends for compressed gradients
  // The time in which one worker updates the weights, without reading the partials of their gradients.
  std::vector<Seconds> update_time;

  // The last position before which a cut is allowed, since the last stage must make the features of all heads.
  int last_cut = 0;
  // Index: position. True: no cut before this position is allowed, since operators on both sides read a state that a
  // step updates, and only one device may update it.
  std::vector<bool> joined;
  int size() const { return static_cast<int>(nodes.size()); }
  int most_stages() const;
};

// REQUIRES: the graph has its backward nodes if `module` trains.
Chain make_chain(const Module& module, const CostModel& cost);

}  // namespace xrun::planner
