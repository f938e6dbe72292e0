// A handful of operators with an interpreter in f64, so that the folder graph/ is tested without any kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace xrun::testing {

// linear(out), relu, add, mul, scale(k), noise (random), square_loss, cast, fill, and the operators of their gradients.
const OpRegistry& tiny_registry();

// Values of every node for `rows` samples: inputs and parameters are drawn from the seed. Casts to bf16 are exact
// copies here: the interpreter judges structure, not rounding.
struct TinyRun {
  int64_t rows = 0;
  std::vector<std::vector<double>> values;  // indexed by ValueId
};
TinyRun draw_leaves(const Graph& graph, int64_t rows, uint64_t seed);
void evaluate(const Graph& graph, TinyRun& run);

// A random graph of `nodes` operators over [N, 4] values with a square loss, differentiable, seeded.
Graph random_tiny_graph(uint64_t seed, int nodes);

}  // namespace xrun::testing
