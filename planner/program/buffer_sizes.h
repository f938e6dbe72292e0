// Sizes of buffers that do not follow from the type of one tensor alone. Emission sets these sizes and the verifier
// checks them.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program/program.h"

namespace xrun::planner {

// Returns the names of the states that are kept for each weight: the states of the optimizer, and the weight's running
// mean if the text sets one.
std::vector<std::string> optimizer_states(const Module& module);

// Size of kGradient: all partials of one replica.
Bytes gradient_bytes(const Program& program, const TensorType& gradient);

// Size of one sender's part of kPairs: the pairs that it sends at the largest density.
Bytes pairs_bytes(const Module& module, ParamId param);

// Size of kHeadWeight, kHeadOptimizer, kHeadScale and kHeadLast: a shard's rows of the class weights or of the bias.
Bytes shard_bytes(const HeadPlan& head, const HeadShard& shard, ParamId param, Purpose purpose);
// Whether a shard's rows have scales.
inline bool has_scales(const HeadPlan& head) { return head.weights == RowFormat::kFp8; }
// Whether a row that some steps did not use catches up when it is used again: it then applies the updates of those
// steps (Untouched::kExact). If so, all passes read the optimizer states and the step that last updated each row.
inline bool catches_up(const HeadPlan& head) { return head.untouched == Untouched::kExact; }

// Size of kHeadLists.
Bytes lists_bytes(const HeadPlan& head);

// Size of kHeadBuild: the lists, followed by the working memory of a build.
Bytes build_bytes(const Program& program, const HeadPlan& head);

// Returns the sizes of kHeadLists, kHeadSnapshot and kHeadBuild, which the host has for a head whose active classes are
// neighbours in a graph. They depend only on `head` and on the numbers of threads of `program`.
std::vector<Bytes> graph_bytes(const Program& program, const HeadPlan& head);

// The parts of a shard in the buffers that several shards share. kHeadStats has the parts of all shards, in order;
// kHeadGradient has the parts of the shards on its device. The parts of a shard without rows are empty.
struct ShardPart {
  Bytes stats_offset = 0;
  Bytes stats = 0;
  Bytes gradient_offset = 0;
  Bytes gradient = 0;
};
std::vector<ShardPart> shard_parts(const Program& program, const Graph& graph, const HeadPlan& head);

// Size of kHeadStats for all shards of a head.
Bytes all_stats_bytes(const std::vector<ShardPart>& parts);

// Size of kHeadGradient for the shards on `device`.
Bytes device_gradient_bytes(const HeadPlan& head, const std::vector<ShardPart>& parts, int device);

// Size of kHeadSoftmax for `rows` rows.
Bytes softmax_bytes(const Program& program, const Graph& graph, const HeadPlan& head, int64_t rows);

// Size of kResult for a head's logits: best classes and their logits.
Bytes best_bytes(const HeadPlan& head, int64_t rows);

}  // namespace xrun::planner
