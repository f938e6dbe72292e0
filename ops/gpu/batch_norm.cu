// Batch norm over row blocks (ops/norm/batch_norm.cpp) of x [blocks, rows, channels]: one launch spans all row blocks,
// each of which has statistics of its own. The kernels have the bits of the processor.
#include "ops/gpu/column_sums.h"
#include "ops/norm/norm_formulas.h"

using namespace xrun::ops;

namespace xrun::ops {

// Mean and biased variance of each channel of a row block, with sums of x - x[0, c], so that a large mean loses no
// precision. Blocks of 32 x 8 threads, for 32 channels (x) of a row block (y).
template <typename T>
__device__ void statistics(const T* x, float* mean, float* var, int64_t rows, int64_t channels) {
  const T* const block = x + blockIdx.y * rows * channels;
  const int64_t out = blockIdx.y * channels;
  reduce_columns<2>(
      rows, channels,
      [=](int64_t r, int64_t c, float* acc) {
        const float d = to_float(block[r * channels + c]) - to_float(block[c]);
        acc[0] += d;
        acc[1] += d * d;
      },
      [=](int64_t c, const double* totals) {
        const double m = totals[0] / static_cast<double>(rows);
        const double v = totals[1] / static_cast<double>(rows) - m * m;
        mean[out + c] = static_cast<float>(static_cast<double>(to_float(block[c])) + m);
        var[out + c] = static_cast<float>(v > 0 ? v : 0);
      });
}

// The operation after the norm.
enum class After { kNothing, kRelu, kAdd, kAddRelu };

// y = weight * (x - mean) / sqrt(var + eps) + bias, then the function or the sum with `residual`. Blocks of 32 x 8
// threads, for 32 channels (x) of 64 rows (y) of a row block (z). `stride` is the distance of the statistics of two row
// blocks: channels, or 0 for running statistics.
template <After kAfter, typename T>
__device__ void apply(const T* x, const T* residual, const float* mean, const float* var, const float* weight,
                      const float* bias, T* y, int64_t rows, int64_t channels, int64_t stride, float eps) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock + threadIdx.x;
  if (c >= channels) {
    return;
  }
  const float centre = mean[blockIdx.z * stride + c];
  const float scale = weight[c] * (1.0F / square_root(var[blockIdx.z * stride + c] + eps));
  const float shift = bias[c];
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * kSumRows;
  const int64_t end = begin + kSumRows < rows ? begin + kSumRows : rows;
  for (int64_t r = begin + threadIdx.y; r < end; r += blockDim.y) {
    const int64_t i = (blockIdx.z * rows + r) * channels + c;
    float v = normalized(to_float(x[i]), centre, scale, shift);
    if constexpr (kAfter == After::kAdd || kAfter == After::kAddRelu) {
      v = rounded_to<T>(v) + to_float(residual[i]);
    }
    assign(y[i], kAfter == After::kRelu || kAfter == After::kAddRelu ? rectify(v) : v);
  }
}

}  // namespace xrun::ops

extern "C" __global__ void bn_statistics_f32(const float* x, float* mean, float* var, int64_t rows, int64_t channels) {
  statistics(x, mean, var, rows, channels);
}
extern "C" __global__ void bn_statistics_bf16(const Bf16* x, float* mean, float* var, int64_t rows, int64_t channels) {
  statistics(x, mean, var, rows, channels);
}

extern "C" __global__ void bn_f32(const float* x, const float* mean, const float* var, const float* weight,
                                  const float* bias, float* y, int64_t rows, int64_t channels, int64_t stride,
                                  float eps) {
  apply<After::kNothing, float>(x, nullptr, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_bf16(const Bf16* x, const float* mean, const float* var, const float* weight,
                                   const float* bias, Bf16* y, int64_t rows, int64_t channels, int64_t stride,
                                   float eps) {
  apply<After::kNothing, Bf16>(x, nullptr, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_relu_f32(const float* x, const float* mean, const float* var, const float* weight,
                                       const float* bias, float* y, int64_t rows, int64_t channels, int64_t stride,
                                       float eps) {
  apply<After::kRelu, float>(x, nullptr, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_relu_bf16(const Bf16* x, const float* mean, const float* var, const float* weight,
                                        const float* bias, Bf16* y, int64_t rows, int64_t channels, int64_t stride,
                                        float eps) {
  apply<After::kRelu, Bf16>(x, nullptr, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_add_f32(const float* x, const float* residual, const float* mean, const float* var,
                                      const float* weight, const float* bias, float* y, int64_t rows, int64_t channels,
                                      int64_t stride, float eps) {
  apply<After::kAdd>(x, residual, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_add_bf16(const Bf16* x, const Bf16* residual, const float* mean, const float* var,
                                       const float* weight, const float* bias, Bf16* y, int64_t rows, int64_t channels,
                                       int64_t stride, float eps) {
  apply<After::kAdd>(x, residual, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_add_relu_f32(const float* x, const float* residual, const float* mean, const float* var,
                                           const float* weight, const float* bias, float* y, int64_t rows,
                                           int64_t channels, int64_t stride, float eps) {
  apply<After::kAddRelu>(x, residual, mean, var, weight, bias, y, rows, channels, stride, eps);
}
extern "C" __global__ void bn_add_relu_bf16(const Bf16* x, const Bf16* residual, const float* mean, const float* var,
                                            const float* weight, const float* bias, Bf16* y, int64_t rows,
                                            int64_t channels, int64_t stride, float eps) {
  apply<After::kAddRelu>(x, residual, mean, var, weight, bias, y, rows, channels, stride, eps);
}

// Moves the running statistics once a step, in f64, over all row blocks in ascending order; nothing moves if the flag
// word is set. One thread a channel.
extern "C" __global__ void bn_running(const float* means, const float* vars, float* running_mean, float* running_var,
                                      int64_t blocks, int64_t channels, double momentum, const uint32_t* flags) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (c >= channels || *flags != 0) {
    return;
  }
  double mean = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    mean += static_cast<double>(means[b * channels + c]);
  }
  mean /= static_cast<double>(blocks);
  double var = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    const double away = static_cast<double>(means[b * channels + c]) - mean;
    var += static_cast<double>(vars[b * channels + c]) + away * away;
  }
  var /= static_cast<double>(blocks);
  running_mean[c] = static_cast<float>((1 - momentum) * static_cast<double>(running_mean[c]) + momentum * mean);
  running_var[c] = static_cast<float>((1 - momentum) * static_cast<double>(running_var[c]) + momentum * var);
}
