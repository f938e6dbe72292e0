// Sizes of buffers that follow from more than one tensor's type: what emission gives and the verifier asks for.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

// Names of the states that the optimizer keeps for each weight; none without an optimizer.
std::vector<std::string> optimizer_states(const Module& module);

// kGradient: all partials of one replica.
Bytes gradient_bytes(const Program& program, const TensorType& gradient);

// kNorms: a sum for each chunk, or class block, of all tensors that clip = norm counts.
Bytes norm_bytes(const Module& module);

// kHeadWeight and kHeadOptimizer: a shard's rows of the class weights or of the bias.
Bytes shard_bytes(const HeadPlan& head, const HeadShard& shard, ParamId param);

// kHeadStats: of all shards of a head.
Bytes all_stats_bytes(const Program& program, const Graph& graph, const HeadPlan& head);

// kHeadGradient: by device, of the shards that lie on it.
std::map<int, Bytes> device_gradient_bytes(const Program& program, const Graph& graph, const HeadPlan& head);

// kHeadSoftmax of `rows` rows.
Bytes softmax_bytes(const Program& program, const Graph& graph, const HeadPlan& head, int64_t rows);

// kResult of a head's logits: best classes and their logits.
Bytes best_bytes(const HeadPlan& head, int64_t rows);

}  // namespace xrun::planner
