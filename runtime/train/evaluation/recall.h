// Measures the recall of retrieval over all samples of a source (ops/losses/recall_op.cpp): the share of samples that
// have another sample of their class among their nearest neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// The memory of the features and labels of so many samples, and that of a search in them by `threads`.
Bytes recall_features(int64_t samples, int64_t dim);
Bytes recall_search(int64_t samples, int64_t dim, int64_t neighbours, int threads);

// Stores the features and the label of each sample: rows · (dim + 1) numbers of 4 bytes. Threads: one makes all calls.
class Recall {
 public:
  // `dim`: dimensions of the features; `neighbours`: k.
  Recall(int64_t dim, int64_t neighbours) : dim_(dim), neighbours_(neighbours) {}

  // Takes the memory for so many samples, so that adding them moves nothing.
  void reserve(int64_t samples);
  // Adds a row of the operator's result: dim + 2 numbers.
  void add(const float* row);
  // Returns the share of the labelled samples that have another sample of their class among their k nearest neighbours;
  // 0 if no sample has a label. The result does not depend on `threads`. Errors: kWorld, the system refuses memory or a
  // thread for the search; kInterrupted once `stop` is set.
  Result<double> measure(int threads, StopFlag stop) const;

 private:
  int64_t dim_;
  int64_t neighbours_;
  std::vector<float> features_;
  std::vector<int32_t> labels_;
};

}  // namespace xrun::runtime
