// Computes the classifier head naively in f64 over the whole matrix of logits. It is the oracle for ops/head/head.h.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/settings/head_def.h"

namespace xrun::test {

struct HeadProblem {
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t rows = 0;
  bool bf16 = false;  // operands of products are rounded to bf16
  bool f16 = false;   // operands of products are rounded to f16
  HeadForm form;
  MarginForm margin;
  double row_weight = 1;
  std::vector<float> features;  // [rows, dim]
  std::vector<float> weight;    // [classes, dim]
  std::vector<float> bias;      // [classes] or empty
  std::vector<int32_t> labels;  // a label outside 0..classes-1 gives the row weight 0
  std::vector<float> factors;   // weight of each row's loss; empty: 1
  // The target cosines that the margin reads. They are given because the slope of an angle near cos = 1 is too steep to
  // compare results otherwise.
  std::vector<float> target_logits;  // [rows] or empty
  std::vector<float> corrections;    // [classes] or empty: added to scaled logits of classes other than the target
};

struct HeadAnswer {
  std::vector<double> loss;    // [rows]
  std::vector<double> dx;      // [rows, dim]
  std::vector<double> dw;      // [classes, dim]
  std::vector<double> db;      // [classes]
  std::vector<double> logits;  // [rows, classes], before the margin
  // Sizes of the terms of each sum. Rounding errors are relative to these sizes, since the terms may cancel.
  std::vector<double> loss_size;  // [rows]
  std::vector<double> dx_size;    // [rows]: size of the row's gradient norm
  std::vector<double> dw_size;    // [classes]
};

HeadAnswer solve(const HeadProblem& problem);

// Returns |got - want| / |want| in the Euclidean norm.
double relative_error(const std::vector<float>& got, const std::vector<double>& want);

}  // namespace xrun::test
