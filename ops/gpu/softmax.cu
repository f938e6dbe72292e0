// Softmax and l2norm over rows [rows, columns], and their gradients, sixteen threads a row (ops/reduce/softmax.cpp).
// The kernels have the bits of the processor.
#include "ops/gpu/row_sums.h"

using namespace xrun::ops;

namespace xrun::ops {

// The elements of a row that one thread has. A row that does not exist has none.
template <class Visit>
__device__ void for_elements(const RowThread& at, int64_t rows, int64_t columns, const Visit& visit) {
  if (at.row < rows) {
    for (int64_t c = at.lane; c < columns; c += kLanes) {
      visit(at.row * columns + c);
    }
  }
}

// The larger number; NaN if one of both is NaN.
struct Larger {
  __device__ float operator()(float best, float x) const { return x <= best || best != best ? best : x; }
};

// 1 over the norm of a row, which is at least 1e-12.
__device__ inline float inverse_norm(float square_sum) {
  const float norm = square_root(square_sum);
  return 1.0F / (norm > 1e-12F ? norm : 1e-12F);
}

template <typename T>
__device__ void l2norm(const T* x, T* y, int64_t rows, int64_t columns) {
  const RowThread at = RowThread::here();
  float squares = 0;
  for_elements(at, rows, columns, [&](int64_t i) { squares += to_float(x[i]) * to_float(x[i]); });
  const float inverse = inverse_norm(sum_of_row(squares));
  for_elements(at, rows, columns, [&](int64_t i) { assign(y[i], to_float(x[i]) * inverse); });
}

template <typename T>
__device__ void l2norm_grad(const T* x, const T* dy, T* dx, int64_t rows, int64_t columns) {
  const RowThread at = RowThread::here();
  float squares = 0, products = 0;
  for_elements(at, rows, columns, [&](int64_t i) {
    squares += to_float(x[i]) * to_float(x[i]);
    products += to_float(x[i]) * to_float(dy[i]);
  });
  const float inverse = inverse_norm(sum_of_row(squares));
  const float along = sum_of_row(products) * inverse * inverse;
  for_elements(at, rows, columns,
               [&](int64_t i) { assign(dx[i], (to_float(dy[i]) - to_float(x[i]) * along) * inverse); });
}

}  // namespace xrun::ops

extern "C" __global__ void softmax_f32(const float* x, float* y, int64_t rows, int64_t columns) {
  const RowThread at = RowThread::here();
  float top = -INFINITY;
  for_elements(at, rows, columns, [&](int64_t i) { top = Larger()(top, x[i]); });
  top = best_of_row(top, Larger());
  float running = 0;
  for_elements(at, rows, columns, [&](int64_t i) { running += exp_lanes(x[i] - top); });
  const float sum = sum_of_row(running);
  for_elements(at, rows, columns, [&](int64_t i) { y[i] = exp_lanes(x[i] - top) / sum; });
}

extern "C" __global__ void softmax_grad_f32(const float* y, const float* dy, float* dx, int64_t rows, int64_t columns) {
  const RowThread at = RowThread::here();
  float products = 0;
  for_elements(at, rows, columns, [&](int64_t i) { products += y[i] * dy[i]; });
  const float along = sum_of_row(products);
  for_elements(at, rows, columns, [&](int64_t i) { dx[i] = y[i] * (dy[i] - along); });
}

extern "C" __global__ void l2norm_f32(const float* x, float* y, int64_t rows, int64_t columns) {
  l2norm(x, y, rows, columns);
}
extern "C" __global__ void l2norm_bf16(const Bf16* x, Bf16* y, int64_t rows, int64_t columns) {
  l2norm(x, y, rows, columns);
}
extern "C" __global__ void l2norm_grad_f32(const float* x, const float* dy, float* dx, int64_t rows, int64_t columns) {
  l2norm_grad(x, dy, dx, rows, columns);
}
extern "C" __global__ void l2norm_grad_bf16(const Bf16* x, const Bf16* dy, Bf16* dx, int64_t rows, int64_t columns) {
  l2norm_grad(x, dy, dx, rows, columns);
}
