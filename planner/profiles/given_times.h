// Puts the user's times of layers in place of those of the cost model.
#pragma once

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "planner/profiles/layer_times.h"
#include "planner/program/plan.h"

namespace xrun::planner {

/// Sets the times of the operators of the named layers in `facts`, and returns how many they are. The time of a layer
/// is divided among its operators in the proportions of the cost model, and scaled from `times.rows` rows to the rows
/// of a row block. `module` is prepared with its backward part, and `facts` are its kernels'. Sets no file and digest
/// in the result. Errors: XG0632 for a layer that the model does not have or that is part of another one of the file,
/// for a head, and for a backward time of a layer without a backward pass.
Result<UsedTimes> use_layer_times(const LayerTimes& times, const Module& module, KernelFacts& facts);

}  // namespace xrun::planner
