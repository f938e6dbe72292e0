// softmax_ce, its gradient and accuracy on dense logits [rows, classes] with one label a row (ops/losses/dense_loss.h),
// sixteen threads a row. A label outside of 0 .. classes - 1 is none: loss and gradient are 0. The gradient and the
// accuracy have the bits of the processor; the loss has them unless its f64 value, whose logarithm is our own, lies
// within two units of its last place from the middle between two numbers of f32. The kernels `sequence_*` are for
// logits [rows, positions, classes] with a label at each position: a row has the mean over positions with a label.
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

// The loss of a row with these sums; 0 without a label, or NaN if a logit is NaN. For one thread.
__device__ inline double loss_of(const float* x, int32_t label, const RowSums& sums, int64_t classes, float scale,
                                 double smoothing) {
  double total = 0;
  for (int64_t c = 0; c < classes; ++c) {
    total += static_cast<double>(x[c]) * static_cast<double>(scale);
  }
  const double lse = static_cast<double>(sums.max) + log64(static_cast<double>(sums.exps));
  if (label < 0 || label >= classes) {
    return 0 * lse;
  }
  const double z = static_cast<double>(x[label]) * static_cast<double>(scale);
  return lse - (1 - smoothing) * z - smoothing * total / static_cast<double>(classes);
}

// The gradient of a row: factor * (softmax(z) - (1 - smoothing) * [label] - smoothing / classes). `factor` is 0 without
// a label.
__device__ inline void store_gradient(const RowThread& at, const float* x, float* dx, int32_t label,
                                      const RowSums& sums, int64_t classes, float scale, double smoothing,
                                      float factor) {
  const bool has_label = label >= 0 && label < classes;
  const float smooth = static_cast<float>(smoothing / static_cast<double>(classes)) * factor;
  const float inverse = factor / sums.exps;
  for (int64_t c = at.lane; c < classes; c += kLanes) {
    float d = exp_lanes(x[c] * scale - sums.max) * inverse - smooth;
    if (has_label && c == label) {
      d -= static_cast<float>(1 - smoothing) * factor;
    }
    dx[c] = d;
  }
}

// 1 if the label is among the k largest logits and none is NaN, else 0. Of equal logits, the lower class ranks first.
__device__ inline float hit_of(const float* x, int lane, int32_t label, int64_t classes, int64_t k) {
  const bool has_label = label >= 0 && label < classes;
  int32_t ahead = 0, unordered = 0;
  for (int64_t c = lane; has_label && c < classes; c += kLanes) {
    unordered += x[c] == x[c] ? 0 : 1;
    ahead += x[c] > x[label] || (x[c] == x[label] && c < label) ? 1 : 0;
  }
  ahead = sum_of_row(ahead);
  unordered = sum_of_row(unordered);
  return has_label && unordered == 0 && ahead < k ? 1.0F : 0.0F;
}

}  // namespace xrun::ops

// loss[row] = log-sum-exp(z) - (1 - smoothing) * z[label] - smoothing * mean(z), with z = scale * logits.
extern "C" __global__ void softmax_ce_f32(const float* logits, const int32_t* labels, float* loss, int64_t rows,
                                          int64_t classes, float scale, double smoothing) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const float* const x = logits + at.row * classes;
  const RowSums sums = sums_of(at, x, exists, classes, scale);
  if (exists && at.lane == 0) {
    loss[at.row] = static_cast<float>(loss_of(x, labels[at.row], sums, classes, scale, smoothing));
  }
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
  const float factor = label >= 0 && label < classes ? dloss[at.row] * scale : 0.0F;
  store_gradient(at, x, dx + at.row * classes, label, sums, classes, scale, smoothing, factor);
}

// hit[row] = 1 if the label is among the k largest logits and none is NaN, else 0.
extern "C" __global__ void accuracy_f32(const float* logits, const int32_t* labels, float* hit, int64_t rows,
                                        int64_t classes, int64_t k) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const float result = hit_of(logits + at.row * classes, at.lane, exists ? labels[at.row] : -1, classes, k);
  if (exists && at.lane == 0) {
    hit[at.row] = result;
  }
}

// values[position] = the loss of each of all `count` positions, in f64.
extern "C" __global__ void sequence_ce_f32(const float* logits, const int32_t* labels, double* values, int64_t count,
                                           int64_t classes, float scale, double smoothing) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < count;
  const float* const x = logits + at.row * classes;
  const RowSums sums = sums_of(at, x, exists, classes, scale);
  if (exists && at.lane == 0) {
    values[at.row] = loss_of(x, labels[at.row], sums, classes, scale, smoothing);
  }
}

// Likewise the hits.
extern "C" __global__ void sequence_hits_f32(const float* logits, const int32_t* labels, double* values, int64_t count,
                                             int64_t classes, int64_t k) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < count;
  const float result = hit_of(logits + at.row * classes, at.lane, exists ? labels[at.row] : -1, classes, k);
  if (exists && at.lane == 0) {
    values[at.row] = static_cast<double>(result);
  }
}

// means[row] = the sum of the values of its positions over the number of its labels, in ascending order. One thread a
// row.
extern "C" __global__ void sequence_means_f32(const double* values, const int32_t* labels, float* means, int64_t rows,
                                              int64_t positions, int64_t classes) {
  const int64_t row = thread_index();
  if (row >= rows) {
    return;
  }
  double sum = 0;
  int64_t count = 0;
  for (int64_t t = row * positions; t < (row + 1) * positions; ++t) {
    sum += values[t];
    count += labels[t] >= 0 && labels[t] < classes ? 1 : 0;
  }
  means[row] = static_cast<float>(sum / static_cast<double>(count > 0 ? count : 1));
}

// The gradient of the mean loss of each row, sixteen threads a position.
extern "C" __global__ void sequence_ce_dx_f32(const float* logits, const int32_t* labels, const float* dloss, float* dx,
                                              int64_t count, int64_t positions, int64_t classes, float scale,
                                              double smoothing) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < count;
  const float* const x = logits + at.row * classes;
  const RowSums sums = sums_of(at, x, exists, classes, scale);
  const int64_t first = at.row / positions * positions;
  int32_t targets = 0;
  for (int64_t t = at.lane; exists && t < positions; t += kLanes) {
    targets += labels[first + t] >= 0 && labels[first + t] < classes ? 1 : 0;
  }
  targets = sum_of_row(targets);
  if (!exists) {
    return;
  }
  const int32_t label = labels[at.row];
  const bool has_label = label >= 0 && label < classes;
  const float factor = has_label ? dloss[at.row / positions] * scale / static_cast<float>(targets) : 0.0F;
  store_gradient(at, x, dx + at.row * classes, label, sums, classes, scale, smoothing, factor);
}
