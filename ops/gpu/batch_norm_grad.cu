// Gradients of batch norm over row blocks (ops/norm/batch_norm_grad.cpp) of x [blocks, rows, channels], in three
// launches: sums of each row block, dx, and the sums of all row blocks in ascending order for weight and bias. The
// kernels have the bits of the processor.
// Tests: tests/ops/gpu/batch_norm_test.cpp
#include "ops/gpu/column_sums.h"
#include "ops/norm/norm_formulas.h"

using namespace xrun::ops;

namespace xrun::ops {

// The numbers of one channel.
struct Channel {
  float mean, scale, bias, rstd;

  __device__ static Channel of(const float* mean, const float* var, const float* weight, const float* bias,
                               int64_t block, int64_t channels, int64_t c, float eps) {
    const float rstd = 1.0F / square_root(var[block * channels + c] + eps);
    return {mean[block * channels + c], weight[c] * rstd, bias[c], rstd};
  }

  // The gradient of the norm from that of the result; with a relu it is 0 where the forward pass clipped.
  template <bool kRelu>
  __device__ float before(float x, float g) const {
    return kRelu ? choose<_CMP_GT_OQ>(normalized(x, mean, scale, bias), 0.0F, g, 0.0F) : g;
  }
};

// sum, dot [blocks, channels] = sums of g and of g * x̂. Blocks of 32 x 8 threads, for 32 channels (x) of a row block
// (y).
template <bool kRelu, typename T>
__device__ void sums(const T* x, const T* dy, const float* mean, const float* var, const float* weight,
                     const float* bias, float* sum, float* dot, int64_t rows, int64_t channels, float eps) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock + threadIdx.x;
  const int64_t first = blockIdx.y * rows * channels;
  const int64_t out = blockIdx.y * channels;
  Channel at{};
  if (column < channels) {
    at = Channel::of(mean, var, weight, bias, blockIdx.y, channels, column, eps);
  }
  reduce_columns<2>(
      rows, channels,
      [=](int64_t r, int64_t c, float* acc) {
        const float value = to_float(x[first + r * channels + c]);
        const float g = at.before<kRelu>(value, to_float(dy[first + r * channels + c]));
        acc[0] += g;
        acc[1] += g * standardized(value, at.mean, at.rstd);
      },
      [=](int64_t c, const double* totals) {
        sum[out + c] = static_cast<float>(totals[0]);
        dot[out + c] = static_cast<float>(totals[1]);
      });
}

// dx from the sums. Blocks of 32 x 8 threads, for 32 channels (x) of 64 rows (y) of a row block (z).
template <bool kRelu, typename T>
__device__ void gradient(const T* x, const T* dy, const float* mean, const float* var, const float* weight,
                         const float* bias, const float* sum, const float* dot, T* dx, int64_t rows, int64_t channels,
                         float eps) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock + threadIdx.x;
  if (c >= channels) {
    return;
  }
  const Channel at = Channel::of(mean, var, weight, bias, blockIdx.z, channels, c, eps);
  const float inverse = 1.0F / static_cast<float>(rows);
  const float mean_g = sum[blockIdx.z * channels + c] * inverse;
  const float mean_gx = dot[blockIdx.z * channels + c] * inverse;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kSumRows;
  const int64_t end = begin + kSumRows < rows ? begin + kSumRows : rows;
  for (int64_t r = begin + threadIdx.y; r < end; r += blockDim.y) {
    const int64_t i = (blockIdx.z * rows + r) * channels + c;
    const float value = to_float(x[i]);
    const float g = at.before<kRelu>(value, to_float(dy[i]));
    assign(dx[i], column_norm_dx(g, mean_g, standardized(value, at.mean, at.rstd), mean_gx, at.scale));
  }
}

}  // namespace xrun::ops

extern "C" __global__ void bn_grad_sums_f32(const float* x, const float* dy, const float* mean, const float* var,
                                            const float* weight, const float* bias, float* sum, float* dot,
                                            int64_t rows, int64_t channels, float eps) {
  sums<false>(x, dy, mean, var, weight, bias, sum, dot, rows, channels, eps);
}
extern "C" __global__ void bn_grad_sums_bf16(const Bf16* x, const Bf16* dy, const float* mean, const float* var,
                                             const float* weight, const float* bias, float* sum, float* dot,
                                             int64_t rows, int64_t channels, float eps) {
  sums<false>(x, dy, mean, var, weight, bias, sum, dot, rows, channels, eps);
}
extern "C" __global__ void bn_relu_grad_sums_f32(const float* x, const float* dy, const float* mean, const float* var,
                                                 const float* weight, const float* bias, float* sum, float* dot,
                                                 int64_t rows, int64_t channels, float eps) {
  sums<true>(x, dy, mean, var, weight, bias, sum, dot, rows, channels, eps);
}
extern "C" __global__ void bn_relu_grad_sums_bf16(const Bf16* x, const Bf16* dy, const float* mean, const float* var,
                                                  const float* weight, const float* bias, float* sum, float* dot,
                                                  int64_t rows, int64_t channels, float eps) {
  sums<true>(x, dy, mean, var, weight, bias, sum, dot, rows, channels, eps);
}

extern "C" __global__ void bn_grad_f32(const float* x, const float* dy, const float* mean, const float* var,
                                       const float* weight, const float* bias, const float* sum, const float* dot,
                                       float* dx, int64_t rows, int64_t channels, float eps) {
  gradient<false>(x, dy, mean, var, weight, bias, sum, dot, dx, rows, channels, eps);
}
extern "C" __global__ void bn_grad_bf16(const Bf16* x, const Bf16* dy, const float* mean, const float* var,
                                        const float* weight, const float* bias, const float* sum, const float* dot,
                                        Bf16* dx, int64_t rows, int64_t channels, float eps) {
  gradient<false>(x, dy, mean, var, weight, bias, sum, dot, dx, rows, channels, eps);
}
extern "C" __global__ void bn_relu_grad_f32(const float* x, const float* dy, const float* mean, const float* var,
                                            const float* weight, const float* bias, const float* sum, const float* dot,
                                            float* dx, int64_t rows, int64_t channels, float eps) {
  gradient<true>(x, dy, mean, var, weight, bias, sum, dot, dx, rows, channels, eps);
}
extern "C" __global__ void bn_relu_grad_bf16(const Bf16* x, const Bf16* dy, const float* mean, const float* var,
                                             const float* weight, const float* bias, const float* sum, const float* dot,
                                             Bf16* dx, int64_t rows, int64_t channels, float eps) {
  gradient<true>(x, dy, mean, var, weight, bias, sum, dot, dx, rows, channels, eps);
}

// dweight += dot and dbias += sum of each row block, in ascending order. One thread a channel.
extern "C" __global__ void bn_grad_fold(const float* sum, const float* dot, float* dweight, float* dbias,
                                        int64_t blocks, int64_t channels) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels) {
    return;
  }
  float weights = dweight[c], biases = dbias[c];
  for (int64_t b = 0; b < blocks; ++b) {
    weights += dot[b * channels + c];
    biases += sum[b * channels + c];
  }
  dweight[c] = weights;
  dbias[c] = biases;
}
