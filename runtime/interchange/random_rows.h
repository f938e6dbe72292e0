// Random inputs of a model, with which an exported file is compared with the model.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/random.h"
#include "graph/graph.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

// The numbers of `rows` samples of a type: standard normal ones for floats, 0 to 255 for bytes, classes for whole
// numbers.
std::vector<std::byte> random_numbers(const TensorType& type, int64_t rows, const RandomStream& random);

// A source of random rows for the inputs of a graph. Row r of an input depends only on the seed, the input's name and
// r.
class RandomRows final : public RowSource {
 public:
  RandomRows(const Graph& graph, int64_t rows, uint64_t seed);

  // Replaces the rows of an input; their form is that of rows_of. REQUIRES: the graph has the input.
  void set_rows(std::string_view input, std::vector<std::byte> rows);

  // The rows of an input in the order of its dimensions (images N, C, H, W), as bytes of its element type. REQUIRES:
  // the graph has the input.
  std::span<const std::byte> rows_of(std::string_view input) const;

  std::string_view name() const override { return "random inputs"; }
  int64_t samples() const override { return rows_; }
  void begin(int64_t first, int64_t rows, const BatchView& batch) override;
  Status finish() override { return {}; }
  void cancel() override {}

 private:
  struct Input {
    std::string name;
    TensorType type;
    std::vector<std::byte> rows;
  };
  int64_t rows_;
  std::vector<Input> inputs_;  // in the order of Graph::inputs
};

}  // namespace xrun::runtime
