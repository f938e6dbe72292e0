// Tests: tests/runtime/train/trainer_test.cpp
#include "runtime/train/evaluation/best_classes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "graph/base/check.h"
#include "ops/simd/simd.h"

namespace xrun::runtime {
namespace {

float number_at(const std::byte* row, DType dtype, int64_t i) {
  return dtype == DType::kF32    ? reinterpret_cast<const float*>(row)[i]
         : dtype == DType::kBF16 ? ops::to_float(reinterpret_cast<const ops::Bf16*>(row)[i])
                                 : ops::to_float(reinterpret_cast<const ops::Half*>(row)[i]);
}

}  // namespace

BestReader::BestReader(const Session& session, const ClassScores& from) : session_(session), from_(from), k_(from.k) {
  const planner::Program& program = session.program();
  const auto batch = static_cast<size_t>(program.batch);
  if (from.logits) {
    const TensorType& type = session.module().graph.value(*from.logits).type;
    XRUN_CHECK(is_computed(type.dtype), "logits are numbers that operators compute");
    XRUN_CHECK(k_ <= type.row_elements(), "there are fewer classes than are asked for");
    dense_.resize(static_cast<size_t>(type.bytes(program.batch, program.norm_rows)));
    classes_.resize(static_cast<size_t>(type.row_elements()));
    logits_.resize(classes_.size());
    return;
  }
  XRUN_CHECK(!program.heads.empty(), "a model without dense logits has a head");
  k_ = program.heads[from.head].top_k;
  classes_.resize(batch * static_cast<size_t>(k_));
  logits_.resize(classes_.size());
  softmax_.resize(batch);
}

Status BestReader::read(int64_t count, BestClasses& to) {
  to.k = k_;
  return from_.logits ? read_dense(count, to) : read_head(count, to);
}

Status BestReader::read_head(int64_t count, BestClasses& to) {
  const Node& head = session_.module().graph.node(session_.program().heads[from_.head].node);
  XRUN_TRY(session_.read_best(head.outputs[0], classes_, logits_));
  XRUN_TRY(session_.read_softmax(static_cast<int>(from_.head), softmax_));
  const double scale = head.attrs.real("scale", 1);
  for (int64_t row = 0; row < count; ++row) {
    const ops::RowSoftmax& softmax = softmax_[static_cast<size_t>(row)];
    for (int64_t i = row * k_; i < (row + 1) * k_; ++i) {
      const float logit = logits_[static_cast<size_t>(i)];
      const double p = std::exp(scale * logit - softmax.max) * softmax.inverse_sum;
      to.classes.push_back(classes_[static_cast<size_t>(i)]);
      to.logits.push_back(logit);
      to.probabilities.push_back(static_cast<float>(p > 1 ? 1 : p));  // rounding may make p exceed 1; a NaN stays NaN
    }
  }
  return {};
}

Status BestReader::read_dense(int64_t count, BestClasses& to) {
  const TensorType& type = session_.module().graph.value(*from_.logits).type;
  const Bytes row_bytes = type.bytes(1, session_.program().norm_rows);
  XRUN_TRY(session_.read_rows(*from_.logits, dense_));
  // A NaN compares false with every number, so it is treated as the smallest value.
  const auto key = [&](int32_t c) {
    const float z = logits_[static_cast<size_t>(c)];
    return z == z ? z : -std::numeric_limits<float>::infinity();
  };
  for (int64_t row = 0; row < count; ++row) {
    for (size_t c = 0; c < logits_.size(); ++c) {
      logits_[c] = number_at(dense_.data() + row * row_bytes, type.dtype, static_cast<int64_t>(c));
    }
    std::iota(classes_.begin(), classes_.end(), 0);
    std::partial_sort(classes_.begin(), classes_.begin() + k_, classes_.end(),
                      [&](int32_t a, int32_t b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
    const double max = from_.scale * logits_[static_cast<size_t>(classes_[0])];
    double sum = 0;
    for (const float z : logits_) {
      sum += std::exp(from_.scale * z - max);
    }
    for (int64_t i = 0; i < k_; ++i) {
      const int32_t best = classes_[static_cast<size_t>(i)];
      const float logit = logits_[static_cast<size_t>(best)];
      to.classes.push_back(best);
      to.logits.push_back(logit);
      to.probabilities.push_back(static_cast<float>(std::exp(from_.scale * logit - max) / sum));
    }
  }
  return {};
}

Result<std::vector<BestClasses>> predict_classes(Session& session, RowSource& source,
                                                 const std::vector<ClassScores>& from, int64_t first, int64_t rows,
                                                 EventSink* events, std::vector<BrokenRow>* broken) {
  std::vector<BestReader> readers;
  std::vector<BestClasses> best;
  for (const ClassScores& scores : from) {
    readers.emplace_back(session, scores);
    best.push_back({.k = readers.back().k()});
  }
  const auto read = [&](int64_t, int64_t count) -> Status {
    for (size_t i = 0; i < readers.size(); ++i) {
      XRUN_TRY(readers[i].read(count, best[i]));
    }
    return {};
  };
  XRUN_TRY(predict_rows(session, source, first, rows, events, broken, read));
  return best;
}

}  // namespace xrun::runtime
