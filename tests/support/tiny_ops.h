// A few operators with an interpreter in f64, so that graph/ is tested without kernels.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace xrun::testing {

// Returns a registry of linear(out), relu, add, mul, scale(k), noise (random), square_loss, cast, fill, and the
// operators of their gradients.
const OpRegistry& tiny_registry();

// Runs every node on `rows` samples. Inputs and parameters are drawn from the seed. Casts to bf16 are exact copies,
// because tests use the interpreter to check the structure of graphs and not rounding.
struct TinyRun {
  int64_t rows = 0;
  std::vector<std::vector<double>> values;  // indexed by ValueId
};
TinyRun draw_leaves(const Graph& graph, int64_t rows, uint64_t seed);
void evaluate(const Graph& graph, TinyRun& run);

// Returns a random differentiable graph of `nodes` operators over [N, 4] values with a square loss. The seed determines
// the graph.
Graph random_tiny_graph(uint64_t seed, int nodes);

}  // namespace xrun::testing
