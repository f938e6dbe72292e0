// The layers of a plan with the times that the planner counted for them, so that the cuts of its stages can be checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/module.h"
#include "planner/program/plan.h"

namespace xrun::planner {

// Times for one micro-batch, as the partition into stages added them up. `backward` is the time of the backward nodes,
// `recompute` the time of forward nodes that run again before them.
struct PassTimes {
  Seconds forward = 0;
  Seconds backward = 0;
  Seconds recompute = 0;
  PassTimes& operator+=(const PassTimes& other);
};

// Returns the times of the nodes of a stage; index: Stage::forward. Their sums are Stage::forward_time and, for
// `backward` and `recompute` together, Stage::backward_time. Empty if the plan file of an earlier version lacks them.
std::vector<PassTimes> node_times(const Stage& stage);

// A layer is all nodes of a stage whose paths share the first parts; a head is a layer of its own with stage -1, since
// its class rows are divided among devices.
struct LayerSummary {
  std::string name;    // "embed", "blocks.3"
  std::string output;  // dims of one sample, "64 x 28 x 28"
  int stage = 0;
  int64_t parameters = 0;
  Flops forward_flops = 0;  // per sample, in the forward pass
  // For a head: the times of a whole step on the busiest device, with the update of the class rows. nullopt: unknown.
  std::optional<PassTimes> times = {};
  Bytes saved = 0;  // values kept for B, per micro-batch; a value of another stage counts for its first reader
  std::vector<size_t> nodes = {};  // indices in Stage::forward
};
// Returns the dimensions of one sample, "64 x 28 x 28".
std::string dims_text(const TensorType& type);
// Returns the first parts of a path, which name its layer.
std::string layer_name(const std::string& path, int depth);
// Returns the layers in printed order. `depth` is the number of parts of a path that name a layer. 0 means the first
// part, followed by the number of the element if the part is a list ("blocks.3").
std::vector<LayerSummary> list_layers(const Plan& plan, const Module& module, int depth = 0);

// The table `layers` of `xrun show`, with the sums of each stage.
std::string layers_table(const Plan& plan, const Module& module, int depth);

}  // namespace xrun::planner
