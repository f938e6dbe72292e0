// Unties weights that several operators read. Each reader gets a parameter of its own, so that each stage with a reader
// has a copy and a gradient. At the end of a step the gradients are added in the order of the readers, as a binary
// tree, and every copy is updated with the sum. The copies therefore stay equal on all devices and under all plans.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace xrun {

inline constexpr int kMostReaders = 256;

// Gives each further reader of an updated weight outside of heads a parameter of the same name, and marks all of them
// (Parameter::tied).
Graph untie(Graph graph);

// The parameters of a tied weight in the order of its readers; empty for any other parameter.
std::vector<ParamId> tied_group(const Graph& graph, ParamId param);

}  // namespace xrun
