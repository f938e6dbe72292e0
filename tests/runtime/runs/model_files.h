// Models of the project as modules with small batches, and inputs for them, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/base/random.h"
#include "lang/frontend.h"
#include "ops/op.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime::testing {

// A model of the project with settings, which replace those of the file.
struct ModelFile {
  std::string path;  // "models/digits.xgraph"
  std::string precision = "f32";
  int64_t rows = 16;      // size of a batch
  int64_t norm_rows = 4;  // size of a row block
  int64_t labels = 10;    // all labels are below this number
  std::vector<SetValue> sets;
};

// Returns the module of a file.
inline Module load_module(const ModelFile& file) {
  SourceMap sources;
  Diagnostics diagnostics;
  lang::FrontendOptions options{.ops = &ops::registry()};
  options.sets = {{"train.batch", std::to_string(file.rows)},
                  {"train.norm_rows", std::to_string(file.norm_rows)},
                  {"train.precision", file.precision}};
  options.sets.insert(options.sets.end(), file.sets.begin(), file.sets.end());
  auto loaded = lang::load(std::string(XRUN_SOURCE_DIR) + "/" + file.path, sources, diagnostics, options);
  XRUN_CHECK(loaded.has_value(), file.path + " does not check");
  return std::move(loaded->module);
}

// Fills inputs with normally distributed numbers that are a function of the seed, and labels with small class numbers.
inline void fill(const Graph& graph, const ModelFile& file, const BatchView& slot, uint64_t seed = 5) {
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs[i].value).type;
    if (slot.inputs[i] == nullptr) {
      continue;
    }
    if (type.dtype == DType::kF32) {
      const RandomStream random(seed, i);
      random.fill_normal(
          0, {reinterpret_cast<float*>(slot.inputs[i]), static_cast<size_t>(type.elements(file.rows, file.norm_rows))});
      continue;
    }
    for (int64_t row = 0; row < file.rows; ++row) {
      reinterpret_cast<int32_t*>(slot.inputs[i])[row] = static_cast<int32_t>(row % file.labels);
    }
  }
}

}  // namespace xrun::runtime::testing
