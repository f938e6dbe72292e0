// The settings of `train` that apply to the update of one tensor.
#pragma once

#include <limits>

#include "graph/graph.h"
#include "graph/settings/specs.h"
#include "ops/optimizer/optimizer.h"

namespace xrun::runtime {

struct TensorUpdate {
  double rate_factor = 1;
  double decay = 0;
  bool decays = true;  // tensors of one dimension never decay, and have no trust ratio
  double grad_limit = std::numeric_limits<double>::infinity();  // limit of `clip = value`
};

// Finds the settings of a tensor. Each setting comes from that entry of `groups` which sets it and whose path is the
// longest that matches the tensor.
TensorUpdate rule_of(const TrainSpec& train, const ops::OptimizerForm& form, const Graph& graph, ParamId param);

// Computes the scalars with which one tensor is updated in one step.
ops::UpdateScalars scalars_of(const TensorUpdate& rule, const ops::OptimizerForm& form, double rate, int64_t step,
                              double grad_scale);

}  // namespace xrun::runtime
