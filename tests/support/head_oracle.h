// The classifier head as a naive f64 computation over whole logits: the oracle of ops/head.h.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/head_def.h"

namespace xrun::test {

struct HeadProblem {
  int64_t classes = 0;
  int64_t dim = 0;
  int64_t rows = 0;
  bool bf16 = false;  // operands of products are rounded to bf16
  HeadForm form;
  MarginForm margin;
  double row_weight = 1;
  std::vector<float> features;  // [rows, dim]
  std::vector<float> weight;    // [classes, dim]
  std::vector<float> bias;      // [classes] or empty
  std::vector<int32_t> labels;  // outside 0..classes-1: the row has weight 0
  std::vector<float> factors;   // factors of the losses of the rows; empty: 1
  // The target cosines that a margin reads: the slope of an angle is too steep near cos = 1 to be compared otherwise.
  std::vector<float> target_logits;  // [rows] or empty
  std::vector<float> corrections;    // [classes] or empty: added to scaled logits of rows with other targets
};

struct HeadAnswer {
  std::vector<double> loss;    // [rows]
  std::vector<double> dx;      // [rows, dim]
  std::vector<double> dw;      // [classes, dim]
  std::vector<double> db;      // [classes]
  std::vector<double> logits;  // [rows, classes], before the margin
  // How large the terms of each sum are, which may cancel: what its roundings are relative to.
  std::vector<double> loss_size;  // [rows]
  std::vector<double> dx_size;    // [rows]: of the norm of the row's gradient
  std::vector<double> dw_size;    // [classes]
};

HeadAnswer solve(const HeadProblem& problem);

// |got - want| / |want|.
double relative_error(const std::vector<float>& got, const std::vector<double>& want);

}  // namespace xrun::test
