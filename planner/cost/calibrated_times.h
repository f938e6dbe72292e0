// Times of kernels from the calibration of a machine, in place of those of the formulas. A measured call has the ratio
// of its time to the time of a formula; the ratio of another call of that kind is interpolated over operations and
// bytes.
#pragma once

#include <memory>
#include <string>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "graph/settings/calibration.h"

namespace xrun::planner {

// Returns the kind of calls to which a node belongs: the name of its operator with `_` for dots. Convolutions with
// windows of one element have kinds of their own ("conv1x1_dx"), and so have those with a stride ("conv_strided").
std::string call_kind(const Graph& graph, const Node& node);

// Returns the time of a call of `flops` operations that reads and writes `bytes`, both for all of its rows.
// REQUIRES: `measured` is not empty.
Seconds calibrated_time(const std::vector<CallTime>& measured, Flops flops, double bytes);

// Sets the times of the nodes whose kind was measured, the rates of updates and heads, and the number of workers that
// fill the memory of a node. Facts that were measured on this machine keep their times and this number.
// `facts` keeps the calibration, whose rates of exchanges and threads the cost model reads.
//   module   prepared; `facts` are its kernels'
//   workers  workers of a node that compute at the same time and slow down one another
void use_calibration(std::shared_ptr<const Calibration> calibration, const Module& module, int workers,
                     KernelFacts& facts);

}  // namespace xrun::planner
