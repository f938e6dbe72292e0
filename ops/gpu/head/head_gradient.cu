// Gradients of a classifier head by the logits of consecutive class blocks, and the parts that steep margins add to dX
// and dW (ops/head/steep.h explains them). Values of rows are planes of one number a place; a launch for some classes
// changes the planes of targets only for rows that have their target there.
//   labels   [places] from head_rows (ops/gpu/head/head_rows.h)
//   targets  the target's logit before the margin
//   psi, slope, steep, target_gradient, maxima, factors, smooths   see the kernels
// Tests: tests/ops/gpu/head/head_steps_test.cpp
#include "ops/gpu/head/head_rows.h"
#include "ops/simd/f64_math.h"

using namespace xrun::ops;

namespace xrun::ops {

// The scale and the filter of the loss for logits of classes other than the target.
struct LossLogits {
  float scale;
  float filter;
};

// Computes the gradients g of the logits z of classes, which may be in one place: 16 threads a class, each of which
// takes the rows whose number in their row block is its own modulo 16. `lanes` [count, 16], unless null, are the
// running sums of the bias gradient.
template <typename T>
__device__ void gradient(const float* z, T* g, const int32_t* labels, const float* maxima, const float* factors,
                         const float* smooths, const float* target_gradient, float* lanes, int64_t count,
                         int64_t padded, int64_t places, int64_t first, const LossLogits& loss) {
  const int64_t c = thread_index() / kLanes;
  const int lane = static_cast<int>(thread_index() % kLanes);
  if (c >= count) {
    return;
  }
  float sum = lanes == nullptr ? 0.0F : lanes[c * kLanes + lane];
#pragma unroll 1
  for (int64_t begin = 0; begin < places; begin += padded) {
#pragma unroll 1
    for (int64_t place = begin + lane; place < begin + padded && place < places; place += kLanes) {
      const int32_t label = labels[place];
      float d = 0;
      if (label == kPadding) {
        assign(g[c * places + place], d);
        continue;
      }
      if (label == first + c) {
        d = target_gradient[place];
      } else {
        const float x = z[c * places + place];
        const bool left_out = loss.filter < x;
        const float e = exp_lanes(__fmaf_rn(loss.scale, left_out ? 0.0F : x, -maxima[place]));
        d = left_out ? 0.0F : __fmaf_rn(e, factors[place], smooths[place]);
      }
      sum += d;
      assign(g[c * places + place], d);
    }
  }
  if (lanes != nullptr) {
    lanes[c * kLanes + lane] = sum;
  }
}

// An element of a normalised row as the products read it: in bf16 rounded, else the exact one.
__device__ inline double operand(float x, double inverse, bool rounded) {
  return rounded ? static_cast<double>(rounded_to<Bf16>(x * static_cast<float>(inverse)))
                 : static_cast<double>(x) * inverse;
}

// Adds steep * (class row across the feature row) to the dX of each row whose target is in the call, in the slot of its
// class block. A warp a place.
template <typename F, typename T>
__device__ void steep_dx(const F* features, const T* weight, const float* class_inverses, const double* inverses,
                         const int32_t* labels, const float* targets, const float* steep, float* dx, int64_t slot,
                         const Range& range, int64_t size, int64_t rows, int64_t block, int64_t padded, int64_t places,
                         int64_t dim, int64_t stride, bool rounded) {
  const WarpRow at = WarpRow::here();
  if (at.row >= places || !range.has(labels[at.row]) || steep[at.row] == 0.0F) {
    return;
  }
  const int64_t c = labels[at.row] - range.first;
  const T* const w = weight + c * dim;
  const F* const x = features + row_at(at.row, rows, block, padded) * dim;
  const double exact = inverse_norm64(w, at.lane, dim);
  const double inverse = rounded ? static_cast<double>(class_inverses[c]) : exact;
  const double along = static_cast<double>(targets[at.row]) * inverses[at.row];
  float* const out = dx + c / size * slot + at.row * stride;
#pragma unroll 1
  for (int64_t d = at.lane; d < dim; d += kWarp) {
    const double across = operand(to_float(w[d]), inverse, rounded) - along * static_cast<double>(to_float(x[d]));
    out[d] += static_cast<float>(static_cast<double>(steep[at.row]) * across);
  }
}

// Adds steep * (feature row across the class row) to the dW of each class that is the target of rows. The warp of the
// first of these rows adds all of them, in ascending order. A warp a place.
template <typename F, typename T>
__device__ void steep_dw(const F* features, const T* weight, const double* inverses, const int32_t* labels,
                         const float* targets, const float* steep, float* dw, const Range& range, int64_t rows,
                         int64_t block, int64_t padded, int64_t places, int64_t dim, int64_t stride, bool rounded) {
  const WarpRow at = WarpRow::here();
  if (at.row >= places || !range.has(labels[at.row])) {
    return;
  }
  const int32_t label = labels[at.row];
  int32_t earlier = 0;
#pragma unroll 1
  for (int64_t place = at.lane; place < at.row; place += kWarp) {
    earlier += labels[place] == label ? 1 : 0;
  }
  if (__any_sync(0xFFFFFFFFU, earlier != 0)) {
    return;
  }
  const int64_t c = label - range.first;
  const T* const w = weight + c * dim;
  const double w_inverse = inverse_norm64(w, at.lane, dim);
#pragma unroll 1
  for (int64_t place = at.row; place < places; ++place) {
    if (labels[place] != label || steep[place] == 0.0F) {
      continue;
    }
    const F* const x = features + row_at(place, rows, block, padded) * dim;
    const double along = static_cast<double>(targets[place]) * w_inverse;
#pragma unroll 1
    for (int64_t d = at.lane; d < dim; d += kWarp) {
      const double across =
          operand(to_float(x[d]), inverses[place], rounded) - along * static_cast<double>(to_float(w[d]));
      dw[c * stride + d] += static_cast<float>(static_cast<double>(steep[place]) * across);
    }
  }
}

}  // namespace xrun::ops

// The values of a row that the gradients of its logits need: maxima, factors and smooths for all places, and for rows
// with a target in the range target_gradient, the target's gradient with slope 1, and steep, what a slope adds to it.
// `softmax` is that of head_loss, `row_factors` [rows] may be null, `classes` is the number of all classes. One thread
// a place.
extern "C" __global__ void head_row_values(const float* softmax, const float* row_factors, const int32_t* labels,
                                           const double* psi, const double* slope, float* maxima, float* factors,
                                           float* smooths, float* target_gradient, float* steep, int64_t rows,
                                           int64_t block, int64_t padded, int64_t places, int64_t first, int64_t count,
                                           int64_t classes, double scale, double smoothing, double row_weight) {
  const int64_t place = thread_index();
  if (place >= places) {
    return;
  }
  const int64_t row = row_at(place, rows, block, padded);
  const int32_t label = labels[place];
  const auto all = static_cast<double>(classes);
  const float max = row < 0 ? 0.0F : softmax[2 * row], inverse_sum = row < 0 ? 0.0F : softmax[2 * row + 1];
  const double weight =
      row < 0 || row_factors == nullptr ? row_weight : row_weight * static_cast<double>(row_factors[row]);
  const double outer = label >= 0 ? scale * weight : 0;
  maxima[place] = max;
  factors[place] = static_cast<float>(static_cast<double>(inverse_sum) * outer);
  smooths[place] = static_cast<float>(-smoothing / all * outer);
  if (Range{first, count}.has(label)) {
    const double p = exp64(scale * psi[place] - static_cast<double>(max)) * static_cast<double>(inverse_sum);
    const double g = (p - (1 - smoothing) - smoothing / all) * scale * weight;
    target_gradient[place] = static_cast<float>(g);
    steep[place] = static_cast<float>(g * (slope[place] - 1));
  }
}

// g = the gradients of the logits z [count, places] of the classes from `first` on; in f32, g may be z. `lanes`
// [count, 16], which may be null, get the sums over rows of each class added, in f32. 16 threads a class.
extern "C" __global__ void head_gradient_f32(const float* z, float* g, const int32_t* labels, const float* maxima,
                                             const float* factors, const float* smooths, const float* target_gradient,
                                             float* lanes, int64_t count, int64_t padded, int64_t places, int64_t first,
                                             float scale, float filter) {
  gradient(z, g, labels, maxima, factors, smooths, target_gradient, lanes, count, padded, places, first,
           {scale, filter});
}
extern "C" __global__ void head_gradient_bf16(const float* z, Bf16* g, const int32_t* labels, const float* maxima,
                                              const float* factors, const float* smooths, const float* target_gradient,
                                              float* lanes, int64_t count, int64_t padded, int64_t places,
                                              int64_t first, float scale, float filter) {
  gradient(z, g, labels, maxima, factors, smooths, target_gradient, lanes, count, padded, places, first,
           {scale, filter});
}

// bias_gradient[c] = the sum of the 16 lanes of class c in the tree of the processor (ops/simd/lane_sums.h); `squares`
// [count], unless null, gets its square. One thread a class.
extern "C" __global__ void head_bias_gradient(const float* lanes, float* bias_gradient, double* squares,
                                              int64_t count) {
  const int64_t c = thread_index();
  if (c >= count) {
    return;
  }
  float sums[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    sums[i] = lanes[c * kLanes + i];
  }
#pragma unroll
  for (int width = kLanes / 2; width > 0; width /= 2) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sums[i] += sums[i + width];
    }
  }
  bias_gradient[c] = sums[0];
  if (squares != nullptr) {
    squares[c] = static_cast<double>(sums[0]) * static_cast<double>(sums[0]);
  }
}

// head_steep_dx_F_T: adds the part of angular margins to the dX partials of the class blocks of a call, `slot` numbers
// each, after product_head_dx. Features F [rows, dim], class rows T [count, dim] and 1 / norm of both; `rounded`:
// whether the products are those of bf16. A warp a place.
extern "C" __global__ void head_steep_dx_f32_f32(const float* features, const float* weight,
                                                 const float* class_inverses, const double* inverses,
                                                 const int32_t* labels, const float* targets, const float* steep,
                                                 float* dx, int64_t slot, int64_t first, int64_t count, int64_t size,
                                                 int64_t rows, int64_t block, int64_t padded, int64_t places,
                                                 int64_t dim, int64_t stride, uint32_t rounded) {
  steep_dx(features, weight, class_inverses, inverses, labels, targets, steep, dx, slot, {first, count}, size, rows,
           block, padded, places, dim, stride, rounded != 0);
}
extern "C" __global__ void head_steep_dx_f32_bf16(const float* features, const Bf16* weight,
                                                  const float* class_inverses, const double* inverses,
                                                  const int32_t* labels, const float* targets, const float* steep,
                                                  float* dx, int64_t slot, int64_t first, int64_t count, int64_t size,
                                                  int64_t rows, int64_t block, int64_t padded, int64_t places,
                                                  int64_t dim, int64_t stride, uint32_t rounded) {
  steep_dx(features, weight, class_inverses, inverses, labels, targets, steep, dx, slot, {first, count}, size, rows,
           block, padded, places, dim, stride, rounded != 0);
}
extern "C" __global__ void head_steep_dx_bf16_f32(const Bf16* features, const float* weight,
                                                  const float* class_inverses, const double* inverses,
                                                  const int32_t* labels, const float* targets, const float* steep,
                                                  float* dx, int64_t slot, int64_t first, int64_t count, int64_t size,
                                                  int64_t rows, int64_t block, int64_t padded, int64_t places,
                                                  int64_t dim, int64_t stride, uint32_t rounded) {
  steep_dx(features, weight, class_inverses, inverses, labels, targets, steep, dx, slot, {first, count}, size, rows,
           block, padded, places, dim, stride, rounded != 0);
}
extern "C" __global__ void head_steep_dx_bf16_bf16(const Bf16* features, const Bf16* weight,
                                                   const float* class_inverses, const double* inverses,
                                                   const int32_t* labels, const float* targets, const float* steep,
                                                   float* dx, int64_t slot, int64_t first, int64_t count, int64_t size,
                                                   int64_t rows, int64_t block, int64_t padded, int64_t places,
                                                   int64_t dim, int64_t stride, uint32_t rounded) {
  steep_dx(features, weight, class_inverses, inverses, labels, targets, steep, dx, slot, {first, count}, size, rows,
           block, padded, places, dim, stride, rounded != 0);
}

// head_steep_dw_F_T: likewise to the dW [count, stride] of a call, after the products over all rows of the step.
extern "C" __global__ void head_steep_dw_f32_f32(const float* features, const float* weight, const double* inverses,
                                                 const int32_t* labels, const float* targets, const float* steep,
                                                 float* dw, int64_t first, int64_t count, int64_t rows, int64_t block,
                                                 int64_t padded, int64_t places, int64_t dim, int64_t stride,
                                                 uint32_t rounded) {
  steep_dw(features, weight, inverses, labels, targets, steep, dw, {first, count}, rows, block, padded, places, dim,
           stride, rounded != 0);
}
extern "C" __global__ void head_steep_dw_f32_bf16(const float* features, const Bf16* weight, const double* inverses,
                                                  const int32_t* labels, const float* targets, const float* steep,
                                                  float* dw, int64_t first, int64_t count, int64_t rows, int64_t block,
                                                  int64_t padded, int64_t places, int64_t dim, int64_t stride,
                                                  uint32_t rounded) {
  steep_dw(features, weight, inverses, labels, targets, steep, dw, {first, count}, rows, block, padded, places, dim,
           stride, rounded != 0);
}
extern "C" __global__ void head_steep_dw_bf16_f32(const Bf16* features, const float* weight, const double* inverses,
                                                  const int32_t* labels, const float* targets, const float* steep,
                                                  float* dw, int64_t first, int64_t count, int64_t rows, int64_t block,
                                                  int64_t padded, int64_t places, int64_t dim, int64_t stride,
                                                  uint32_t rounded) {
  steep_dw(features, weight, inverses, labels, targets, steep, dw, {first, count}, rows, block, padded, places, dim,
           stride, rounded != 0);
}
extern "C" __global__ void head_steep_dw_bf16_bf16(const Bf16* features, const Bf16* weight, const double* inverses,
                                                   const int32_t* labels, const float* targets, const float* steep,
                                                   float* dw, int64_t first, int64_t count, int64_t rows, int64_t block,
                                                   int64_t padded, int64_t places, int64_t dim, int64_t stride,
                                                   uint32_t rounded) {
  steep_dw(features, weight, inverses, labels, targets, steep, dw, {first, count}, rows, block, padded, places, dim,
           stride, rounded != 0);
}
