// Sources, bindings and batches for the tests of runtime/data.
#pragma once

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/settings/specs.h"
#include "runtime/data/loader.h"
#include "runtime/data/sample_rows.h"

namespace xrun::runtime::testing {

inline SourceSpec source(std::string name, std::string reader, Attrs args, std::string directory = "") {
  return {
      .name = std::move(name), .reader = {std::move(reader), std::move(args), {}}, .directory = std::move(directory)};
}

inline SourceSpec glyphs(std::string name, std::vector<std::string> fonts, int64_t first, int64_t last) {
  return source(std::move(name), "glyphs",
                {{"fonts", std::move(fonts)},
                 {"chars", std::vector<int64_t>{first, last}},
                 {"size", int64_t{32}},
                 {"em", int64_t{26}}});
}

// Returns the augmentation of the glyph model (models/glyphs.xgraph).
inline DataBinding glyph_binding() {
  return {.target = "image",
          .field = "pixels",
          .stages = {{"scale", {{"k", 1.0 / 255}}, {}},
                     {"random_affine", {{"rotate", 0.1}, {"scale", 0.15}, {"shear", 0.1}, {"shift", 0.06}}, {}},
                     {"random_stroke", {{"w", 0.8}}, {}},
                     {"random_blur", {{"p", 0.3}}, {}},
                     {"random_noise", {{"sigma", 0.05}}, {}}}};
}

inline TensorType picture_type(int64_t channels, int64_t height, int64_t width, DType dtype = DType::kF32) {
  return {.dtype = dtype, .dims = {kBatch, channels, height, width}};
}
inline TensorType label_type(int64_t classes) { return {.dtype = DType::kI32, .dims = {kBatch}, .classes = classes}; }

// Returns a graph that has only inputs.
inline Graph inputs(const std::vector<std::pair<std::string, TensorType>>& types) {
  Graph graph;
  for (const auto& [name, type] : types) {
    graph.values.push_back({.type = type, .name = name, .is_input = true});
    graph.inputs.push_back({name, ValueId(graph.values.size() - 1)});
  }
  return graph;
}

// Memory for one batch of the inputs of a graph.
struct Batch {
  std::vector<std::vector<std::byte>> memory;
  BatchView view;

  Batch(const Graph& graph, int64_t rows) {
    for (const NamedValue& input : graph.inputs) {
      memory.emplace_back(static_cast<size_t>(graph.value(input.value).type.bytes(rows, rows)), std::byte{0xee});
    }
    for (auto& bytes : memory) {
      view.inputs.push_back(bytes.data());
    }
  }
  Batch(const Batch&) = delete;
  Batch(Batch&&) = default;

  const float* floats(size_t input) const { return reinterpret_cast<const float*>(memory[input].data()); }
  const int32_t* integers(size_t input) const { return reinterpret_cast<const int32_t*>(memory[input].data()); }
};

// Returns the path of a file or folder of the shared data, or an empty path if it is absent.
inline std::filesystem::path shared_data(const std::string& below) {
  const char* set = std::getenv("XRUN_SHARED_DIR");
  const auto root =
      set != nullptr ? std::filesystem::path(set) : std::filesystem::path(XRUN_SOURCE_DIR) / "../shared/data";
  const auto path = root / below;
  return std::filesystem::exists(path) ? std::filesystem::canonical(path) : std::filesystem::path();
}

}  // namespace xrun::runtime::testing
