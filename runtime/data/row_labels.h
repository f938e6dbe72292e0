// Counts which rows of a batch have labels (graph/layouts/partial_labels.h), and computes from that the factors of the
// rows' losses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

// A partial label, and the inputs that receive its factors: positions in Graph::inputs, -1 if there is no such input.
struct PartialLabel {
  std::string input;
  int64_t positions = 1;  // label positions of one sample
  int64_t labelled = -1;
  int64_t row_factor = -1;

  static PartialLabel of(const Graph& graph, const NamedValue& label);
};

// The labels of one row for one partial label.
struct RowLabel {
  int32_t labels = 0;  // number of positions of the row that have a label; 0 or 1 if there is one position
  float weight = 1;    // weight of the row's class
};

// The rows of one batch. Different threads may write different rows.
class RowLabels {
 public:
  RowLabels(size_t labels, int64_t rows) : labels_(labels), of_(labels * static_cast<size_t>(rows)) {}

  // Returns the values of a row, indexed by partial label.
  std::span<RowLabel> row(int64_t row) { return std::span(of_).subspan(static_cast<size_t>(row) * labels_, labels_); }
  // Returns the number of labels of each row, for partial label `which`.
  std::vector<int32_t> counts(size_t which) const;
  // Writes the factors of those rows of `batch` that this process reads. `sum`: the loss is a sum over rows, not a
  // mean.
  void write_factors(std::span<const PartialLabel> labels, bool sum, const BatchView& batch) const;

 private:
  size_t labels_;
  std::vector<RowLabel> of_;  // values of all rows, row after row
};

// The number of labels of each row of a batch, by partial label.
class LabelCounts {
 public:
  void take(const std::vector<PartialLabel>& labels, const RowLabels& rows);
  // Returns the number of labels of each row; empty for an input that is not a partial label.
  std::span<const int32_t> of(std::string_view input) const;
  // Returns the name of a partial label for which no row has a label; null if there is no such partial label.
  const std::string* lacking() const;

 private:
  std::vector<std::string> inputs_;
  std::vector<std::vector<int32_t>> counts_;
};

}  // namespace xrun::runtime
