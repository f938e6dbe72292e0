// The mean of a measure over rows, added in f64 and in row order (docs/internals/determinism.md, "Scalars").
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace xrun::runtime {

class MeanOfRows {
 public:
  // Adds the value of each row, weighted with the row's number of labels, since the value of a row is already the mean
  // over its labels. `labels`: the number of labels of each row (BatchSource::labelled); empty: each row counts once.
  // REQUIRES: `labels` is empty or has one entry for each row.
  void add(std::span<const float> rows, std::span<const int32_t> labels = {}) {
    for (size_t row = 0; row < rows.size(); ++row) {
      const int64_t count = labels.empty() ? 1 : labels[row];
      sum_ += count == 0 ? 0 : static_cast<double>(count) * static_cast<double>(rows[row]);  // 0: the row has no value
      count_ += count;
    }
  }

  int64_t count() const { return count_; }
  double value() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

}  // namespace xrun::runtime
