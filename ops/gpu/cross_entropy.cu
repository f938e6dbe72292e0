// softmax_ce, its gradient and accuracy on dense logits [rows, classes] with one label a row (ops/losses/dense_loss.h),
// sixteen threads a row. A label outside of 0 .. classes - 1 is none: loss and gradient are 0. The gradient and the
// accuracy have the bits of the processor; the loss has them unless its f64 value, whose logarithm is our own, lies
// within two units of its last place from the middle between two numbers of f32.
// Tests: tests/ops/gpu/row_kernels_test.cpp
#include "ops/gpu/row_sums.h"
#include "ops/simd/f64_math.h"

using namespace xrun::ops;

namespace xrun::ops {

// The largest scaled logit z of a row, and the sum of exp(z - max).
struct RowSums {
  float max;
  float exps;
};

__device__ inline RowSums sums_of(const RowThread& at, const float* x, bool exists, int64_t classes, float scale) {
  const auto larger = [](float best, float z) { return best < z ? z : best; };
  float max = -INFINITY;
  for (int64_t c = at.lane; exists && c < classes; c += kLanes) {
    max = larger(max, x[c] * scale);
  }
  max = best_of_row(max, larger);
  float exps = 0;
  for (int64_t c = at.lane; exists && c < classes; c += kLanes) {
    exps += exp_lanes(x[c] * scale - max);
  }
  return {max, sum_of_row(exps)};
}

}  // namespace xrun::ops

// loss[row] = log-sum-exp(z) - (1 - smoothing) * z[label] - smoothing * mean(z), with z = scale * logits.
extern "C" __global__ void softmax_ce_f32(const float* logits, const int32_t* labels, float* loss, int64_t rows,
                                          int64_t classes, float scale, double smoothing) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const float* const x = logits + at.row * classes;
  const RowSums sums = sums_of(at, x, exists, classes, scale);
  if (!exists || at.lane != 0) {
    return;
  }
  double total = 0;
  for (int64_t c = 0; c < classes; ++c) {
    total += static_cast<double>(x[c]) * static_cast<double>(scale);
  }
  const double lse = static_cast<double>(sums.max) + log64(static_cast<double>(sums.exps));
  const int32_t label = labels[at.row];
  double result = 0 * lse;
  if (label >= 0 && label < classes) {
    const double z = static_cast<double>(x[label]) * static_cast<double>(scale);
    result = lse - (1 - smoothing) * z - smoothing * total / static_cast<double>(classes);
  }
  loss[at.row] = static_cast<float>(result);
}

// dx = dloss[row] * scale * (softmax(z) - (1 - smoothing) * [label] - smoothing / classes).
extern "C" __global__ void softmax_ce_dx_f32(const float* logits, const int32_t* labels, const float* dloss, float* dx,
                                             int64_t rows, int64_t classes, float scale, double smoothing) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const float* const x = logits + at.row * classes;
  const RowSums sums = sums_of(at, x, exists, classes, scale);
  if (!exists) {
    return;
  }
  const int32_t label = labels[at.row];
  const bool has_label = label >= 0 && label < classes;
  const float factor = has_label ? dloss[at.row] * scale : 0.0F;
  const float smooth = static_cast<float>(smoothing / static_cast<double>(classes)) * factor;
  const float inverse = factor / sums.exps;
  for (int64_t c = at.lane; c < classes; c += kLanes) {
    float d = exp_lanes(x[c] * scale - sums.max) * inverse - smooth;
    if (has_label && c == label) {
      d -= static_cast<float>(1 - smoothing) * factor;
    }
    dx[at.row * classes + c] = d;
  }
}

// hit[row] = 1 if the label is among the k largest logits and none is NaN, else 0. Of equal logits, the lower class
// ranks first.
extern "C" __global__ void accuracy_f32(const float* logits, const int32_t* labels, float* hit, int64_t rows,
                                        int64_t classes, int64_t k) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const float* const x = logits + at.row * classes;
  const int32_t label = exists ? labels[at.row] : -1;
  const bool has_label = label >= 0 && label < classes;
  int32_t ahead = 0, unordered = 0;
  for (int64_t c = at.lane; has_label && c < classes; c += kLanes) {
    unordered += x[c] == x[c] ? 0 : 1;
    ahead += x[c] > x[label] || (x[c] == x[label] && c < label) ? 1 : 0;
  }
  ahead = sum_of_row(ahead);
  unordered = sum_of_row(unordered);
  if (exists && at.lane == 0) {
    hit[at.row] = has_label && unordered == 0 && ahead < k ? 1.0F : 0.0F;
  }
}
