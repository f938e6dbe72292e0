// Writes the advice in errors about values that are not finite (XG0810). A lower learning rate or clipping helps only
// if the values were caused by updates of weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program/program.h"
#include "runtime/device/backend.h"

namespace xrun::runtime {

// Returns whether forward passes check that a value is finite: losses, and all values that leave a stage. Index: value.
std::vector<bool> watched_values(const Graph& graph, const planner::Program& program);

// Returns the reason why no update can have changed a weight before step `step`, counted from 0; empty: one can have.
std::string no_update_yet(const TrainSpec& train, int64_t step);

// Returns the advice for a value that updates may have caused.
std::string advice_about_rate(const TrainSpec& train);

// Returns the advice for a result of operator `node` in step `step`.
//   own_range  the operator has no weights, and its inputs are finite numbers of ordinary size, so its function itself
//              is not finite for some of them
std::string advice_about_operator(const TrainSpec& train, int64_t step, const Node& node, bool own_range);

// Makes the error for gradients that are not finite in a step. The error contains the first such gradient in the order
// of the backward pass.
//   sums  the sums of squares of the gradients
Error nonfinite_gradient(const Module& module, const planner::Program& program, std::span<const double> sums,
                         const StepContext& step);
// Return the advice for the loss of a head, and for a gradient.
std::string advice_about_loss(const TrainSpec& train, int64_t step);
std::string advice_about_gradient(const TrainSpec& train, int64_t step);

}  // namespace xrun::runtime
