// Mixed samples (graph/layouts/mixed_labels.h) in a sheet of pictures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/data/sample_rows.h"

namespace xrun::cli {

// A sample of a sheet with the number of its earlier draws, and the same of its partner.
struct Chosen {
  int64_t sample = 0;
  int64_t pass = 0;
  int64_t partner = 0;
  int64_t partner_pass = 0;
};

// Makes each sample the partner of the next one, and the last one that of the first: for samples of no batch.
void mix_in_order(std::vector<Chosen>& chosen);

// How a sample of the sheet was mixed.
struct MixedCell {
  std::string stage;              // "mixup" or "cutmix"
  double share = 1;               // share of the sample
  int64_t partner = 0;            // number of its partner
  std::string name;               // name of its partner
  std::string label;              // with two labels: the class with the smaller share
  std::optional<int64_t> number;  // number of that class
};

// Returns nullopt if the sample was not mixed.
std::optional<MixedCell> mixed_cell(const runtime::Mix& mix, int64_t partner, std::string name);
nlohmann::ordered_json json_of(const MixedCell& mixed);
// The two classes of a row with their shares: "cat 71% + dog 29%".
std::string both_labels(const std::string& label, const MixedCell& mixed);

// Adds inputs for partner labels and shares to a graph that was not prepared, so that SampleRows::mix writes them. A
// graph whose rows have only one label gets none.
void add_mixed_inputs(Graph& graph, const DataSpec& data);
// The position of the partner label of an input in Graph::inputs; the number of inputs if it has none.
size_t partner_of(const Graph& graph, size_t label);
// The class that a row of an input has; nullopt if the sample has no label. Index of `memory`: input.
std::optional<int64_t> class_at(const Graph& graph, size_t input, const std::vector<std::vector<std::byte>>& memory);

}  // namespace xrun::cli
