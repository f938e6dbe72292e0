// layer_norm and rms_norm over rows [rows, columns] (ops/norm/layer_norm.cpp), sixteen threads a row. The gradient
// leaves mean and 1 / sqrt(var + eps) of each row in memory, and the gradients of weight and bias are sums of columns
// over them. The kernels have the bits of the processor.
// Tests: tests/ops/gpu/row_kernels_test.cpp
#include "ops/gpu/column_sums.h"
#include "ops/gpu/row_sums.h"
#include "ops/norm/norm_formulas.h"

using namespace xrun::ops;

namespace xrun::ops {

// The mean of a row (0 without kCentre) and 1 / sqrt(mean of squares + eps).
struct RowNorm {
  float mean;
  float rstd;
};

template <bool kCentre, typename T>
__device__ RowNorm norm_of_row(const T* x, bool exists, int lane, int64_t columns, float eps) {
  const auto count = static_cast<float>(columns);
  float mean = 0;
  if constexpr (kCentre) {
    float sum = 0;
    for (int64_t c = lane; exists && c < columns; c += kLanes) {
      sum += to_float(x[c]);
    }
    mean = sum_of_row(sum) / count;
  }
  float squares = 0;
  for (int64_t c = lane; exists && c < columns; c += kLanes) {
    const float v = kCentre ? to_float(x[c]) - mean : to_float(x[c]);
    squares += v * v;
  }
  return {mean, 1.0F / square_root(sum_of_row(squares) / count + eps)};
}

// x̂ of one number.
template <bool kCentre>
__device__ float standard(float x, RowNorm norm) {
  return kCentre ? standardized(x, norm.mean, norm.rstd) : x * norm.rstd;
}

template <bool kCentre, typename T>
__device__ void forward(const T* x, const float* weight, const float* bias, T* y, int64_t rows, int64_t columns,
                        float eps) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const int64_t first = at.row * columns;
  const RowNorm norm = norm_of_row<kCentre>(x + first, exists, at.lane, columns, eps);
  for (int64_t c = at.lane; exists && c < columns; c += kLanes) {
    float out = standard<kCentre>(to_float(x[first + c]), norm) * weight[c];
    if constexpr (kCentre) {
      out += bias[c];
    }
    assign(y[first + c], out);
  }
}

template <bool kCentre, typename T>
__device__ void gradient(const T* x, const T* dy, const float* weight, T* dx, float* means, float* rstds, int64_t rows,
                         int64_t columns, float eps) {
  const RowThread at = RowThread::here();
  const bool exists = at.row < rows;
  const int64_t first = at.row * columns;
  const RowNorm norm = norm_of_row<kCentre>(x + first, exists, at.lane, columns, eps);
  float sum = 0, products = 0;
  for (int64_t c = at.lane; exists && c < columns; c += kLanes) {
    const float g = to_float(dy[first + c]) * weight[c];
    sum += g;
    products += g * standard<kCentre>(to_float(x[first + c]), norm);
  }
  const auto count = static_cast<float>(columns);
  const float mean_g = kCentre ? sum_of_row(sum) / count : 0.0F;
  const float mean_gx = sum_of_row(products) / count;
  for (int64_t c = at.lane; exists && c < columns; c += kLanes) {
    const float g = to_float(dy[first + c]) * weight[c];
    const float xhat = standard<kCentre>(to_float(x[first + c]), norm);
    assign(dx[first + c], row_norm_dx(g, xhat, mean_g, mean_gx, norm.rstd));
  }
  if (exists && at.lane == 0) {
    means[at.row] = norm.mean;
    rstds[at.row] = norm.rstd;
  }
}

// dweight += sums of dy · x̂, and dbias += sums of dy unless it is null.
template <typename T>
__device__ void weight_gradient(const T* x, const T* dy, const float* means, const float* rstds, float* dweight,
                                float* dbias, int64_t rows, int64_t columns) {
  reduce_columns<2>(
      rows, columns,
      [=](int64_t r, int64_t c, float* acc) {
        const float g = to_float(dy[r * columns + c]);
        acc[0] += g * standardized(to_float(x[r * columns + c]), means[r], rstds[r]);
        acc[1] += g;
      },
      [=](int64_t c, const double* totals) {
        dweight[c] += static_cast<float>(totals[0]);
        if (dbias != nullptr) {
          dbias[c] += static_cast<float>(totals[1]);
        }
      });
}

}  // namespace xrun::ops

extern "C" __global__ void layer_norm_f32(const float* x, const float* weight, const float* bias, float* y,
                                          int64_t rows, int64_t columns, float eps) {
  forward<true>(x, weight, bias, y, rows, columns, eps);
}
extern "C" __global__ void layer_norm_bf16(const Bf16* x, const float* weight, const float* bias, Bf16* y, int64_t rows,
                                           int64_t columns, float eps) {
  forward<true>(x, weight, bias, y, rows, columns, eps);
}
extern "C" __global__ void rms_norm_f32(const float* x, const float* weight, float* y, int64_t rows, int64_t columns,
                                        float eps) {
  forward<false>(x, weight, nullptr, y, rows, columns, eps);
}
extern "C" __global__ void rms_norm_bf16(const Bf16* x, const float* weight, Bf16* y, int64_t rows, int64_t columns,
                                         float eps) {
  forward<false>(x, weight, nullptr, y, rows, columns, eps);
}

extern "C" __global__ void layer_norm_grad_f32(const float* x, const float* dy, const float* weight, float* dx,
                                               float* means, float* rstds, int64_t rows, int64_t columns, float eps) {
  gradient<true>(x, dy, weight, dx, means, rstds, rows, columns, eps);
}
extern "C" __global__ void layer_norm_grad_bf16(const Bf16* x, const Bf16* dy, const float* weight, Bf16* dx,
                                                float* means, float* rstds, int64_t rows, int64_t columns, float eps) {
  gradient<true>(x, dy, weight, dx, means, rstds, rows, columns, eps);
}
extern "C" __global__ void rms_norm_grad_f32(const float* x, const float* dy, const float* weight, float* dx,
                                             float* means, float* rstds, int64_t rows, int64_t columns, float eps) {
  gradient<false>(x, dy, weight, dx, means, rstds, rows, columns, eps);
}
extern "C" __global__ void rms_norm_grad_bf16(const Bf16* x, const Bf16* dy, const float* weight, Bf16* dx,
                                              float* means, float* rstds, int64_t rows, int64_t columns, float eps) {
  gradient<false>(x, dy, weight, dx, means, rstds, rows, columns, eps);
}

extern "C" __global__ void row_norm_weights_f32(const float* x, const float* dy, const float* means, const float* rstds,
                                                float* dweight, float* dbias, int64_t rows, int64_t columns) {
  weight_gradient(x, dy, means, rstds, dweight, dbias, rows, columns);
}
extern "C" __global__ void row_norm_weights_bf16(const Bf16* x, const Bf16* dy, const float* means, const float* rstds,
                                                 float* dweight, float* dbias, int64_t rows, int64_t columns) {
  weight_gradient(x, dy, means, rstds, dweight, dbias, rows, columns);
}
