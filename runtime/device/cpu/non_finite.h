// Advice for values that are not finite (XG0810): a lower rate or a clip helps only if updates caused them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/module.h"
#include "planner/program.h"

namespace xrun::runtime {

// The reason why no update has changed a weight before step `step` (from 0); empty: updates may have.
std::string no_update_yet(const TrainSpec& train, int64_t step);

// For a value that updates may have caused.
std::string advice_about_rate(const TrainSpec& train);

// For a value that operator `node` makes in step `step`.
//   own_range  the operator has no weights, and its inputs are finite numbers of ordinary size: its function has no
//              finite value for some of them
std::string advice_about_operator(const TrainSpec& train, int64_t step, const Node& node, bool own_range);

// Among the gradients that are not finite in step `step`, the first one on the way back from the loss.
//   sums  of squares, for clipping
Error nonfinite_gradient(const Module& module, const planner::Program& program, std::span<const double> sums,
                         int64_t step);
// The advice for a gradient, and for the loss of a head.
std::string advice_about_loss(const TrainSpec& train, int64_t step);
std::string advice_about_gradient(const TrainSpec& train, int64_t step);

}  // namespace xrun::runtime
