// Compression of gradients (`train.compress`): which weights are compressed, and how many elements a sender sends. A
// sender is a replica, or a node whose replicas sum their gradients first (CompressSpec::per_node). The method is that
// of Lin et al., "Deep Gradient Compression", ICLR 2018 (docs/internals/algorithms.md, "Gradient compression").
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/graph.h"
#include "graph/settings/specs.h"

namespace xrun {

// An element that a sender sends: its number in the tensor, and its accumulated gradient. Pairs of a tensor are in
// ascending order of their numbers.
struct GradientPair {
  int32_t index = 0;
  float value = 0;
};
static_assert(sizeof(GradientPair) == 8);

// The names of the states that each sender keeps for a compressed weight, instead of the states of the optimizer: the
// velocity, and the sum of the velocities that were not sent yet.
inline constexpr std::string_view kResidualStates[] = {"velocity", "residual"};

// Whether the gradient of a weight is compressed: `on` contains the weight, it is not part of a head, and it has at
// least two dimensions. Biases and the weights of norms are small and are sent whole.
bool is_compressed(const TrainSpec& train, const Graph& graph, ParamId param);

// The number of pairs that a sender sends for a tensor: density * elements, rounded up; at least one.
int64_t pairs_of(int64_t elements, double density);

// Whether the selection of a tensor's largest elements uses a sample to bound the smallest selected one
// (ops/reduce/top_k.h). It does if at most one element in 32 is selected and the tensor has at least a quarter million
// elements.
bool selects_by_sample(int64_t elements, int64_t pairs);

// The fraction of elements that is sent in step `step`, counted from 0. The first `warmup` steps are divided into four
// equal parts, which send 1/4, 1/16, 1/64 and 1/256 of the elements, but never less than the steps after them.
double density_at(const CompressSpec& compress, double warmup, int64_t step);
// The fraction that is sent in the first step, which is the largest.
double largest_density(const CompressSpec& compress);

}  // namespace xrun
