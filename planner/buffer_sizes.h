// Sizes of buffers that follow from more than one tensor's type, as emission sets and the verifier requires them.
#pragma once

#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program.h"

namespace xrun::planner {

// Names of the states that go with each weight: those of the optimizer, and its running mean.
std::vector<std::string> optimizer_states(const Module& module);

// kGradient: all partials of one replica.
Bytes gradient_bytes(const Program& program, const TensorType& gradient);

// Of kPairs: the pairs of one replica, as many as it sends where the density is largest.
Bytes pairs_bytes(const Module& module, ParamId param);

// kHeadWeight, kHeadOptimizer, kHeadScale and kHeadLast: of a shard's rows of the class weights or of the bias.
Bytes shard_bytes(const HeadPlan& head, const HeadShard& shard, ParamId param, Purpose purpose);
// Whether a shard's rows have scales.
inline bool has_scales(const HeadPlan& head) { return head.weights == RowFormat::kFp8; }
// Whether rows catch up with steps that did not use them; if so, all passes read the states and the last step of rows.
inline bool catches_up(const HeadPlan& head) { return head.untouched == Untouched::kExact; }

// kHeadLists.
Bytes lists_bytes(const HeadPlan& head);

// kHeadBuild: the lists, and behind them the working memory of a build.
Bytes build_bytes(const Program& program, const HeadPlan& head);

// A shard's parts of the buffers that several shards share: kHeadStats has those of all shards in order, kHeadGradient
// those of the shards of its device. A shard without rows has no bytes.
struct ShardPart {
  Bytes stats_offset = 0;
  Bytes stats = 0;
  Bytes gradient_offset = 0;
  Bytes gradient = 0;
};
std::vector<ShardPart> shard_parts(const Program& program, const Graph& graph, const HeadPlan& head);

// kHeadStats: of all shards of a head.
Bytes all_stats_bytes(const std::vector<ShardPart>& parts);

// kHeadGradient: of the shards that lie on `device`.
Bytes device_gradient_bytes(const HeadPlan& head, const std::vector<ShardPart>& parts, int device);

// kHeadSoftmax of `rows` rows.
Bytes softmax_bytes(const Program& program, const Graph& graph, const HeadPlan& head, int64_t rows);

// kResult of a head's logits: best classes and their logits.
Bytes best_bytes(const HeadPlan& head, int64_t rows);

}  // namespace xrun::planner
