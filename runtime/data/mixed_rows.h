// Samples with their draws, and the places of mixed inputs in a graph (graph/layouts/mixed_labels.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "graph/graph.h"
#include "runtime/data/augment/augment.h"

namespace xrun::runtime {

// A sample with the key of its random draws.
struct DrawnSample {
  int64_t number = 0;
  DrawKey key;
};

// The position of an input in Graph::inputs; the number of inputs if the graph lacks it.
size_t place_of(const Graph& graph, std::string_view input);

// The position of the row whose sample is the partner of row `row` in a batch of `rows`: the row before it; the first
// row has the last one.
constexpr int64_t partner_row(int64_t row, int64_t rows) { return row == 0 ? rows - 1 : row - 1; }

// Places of inputs in Graph::inputs, as of place_of.
struct MixPlaces {
  bool mixes = false;        // whether a binding mixes samples
  size_t mixed = 0;          // the input that is mixed
  size_t share = 0;          // share of the label
  size_t partner_share = 0;  // share of the partner label
  size_t weight = 0;         // weight of the partner label's class

  static MixPlaces of(const Graph& graph, const DataSpec& data);
};

}  // namespace xrun::runtime
