// group_norm of images [samples, positions, channels] (ops/norm/group_norm.cpp). Sums of each channel of a sample are
// kept in memory [samples, channels]; the mean over a group of `width` channels then replaces those of its channels.
// The kernels have the bits of the processor.
// Tests: tests/ops/gpu/launch/conformance_test.cpp
#include "ops/gpu/column_sums.h"
#include "ops/gpu/grid.h"
#include "ops/norm/norm_formulas.h"

using namespace xrun::ops;

namespace xrun::ops {

template <typename T>
__device__ void sums(const T* x, float* to, int64_t positions, int64_t channels) {
  const int64_t at = blockIdx.y * channels;
  reduce_columns<1>(
      positions, channels,
      [=](int64_t p, int64_t c, float* acc) { acc[0] += to_float(x[at * positions + p * channels + c]); },
      [=](int64_t c, const double* totals) { to[at + c] = static_cast<float>(totals[0]); });
}

template <typename T>
__device__ void squares(const T* x, const float* means, float* to, int64_t positions, int64_t channels) {
  const int64_t at = blockIdx.y * channels;
  reduce_columns<1>(
      positions, channels,
      [=](int64_t p, int64_t c, float* acc) {
        const float v = to_float(x[at * positions + p * channels + c]) - means[at + c];
        acc[0] += v * v;
      },
      [=](int64_t c, const double* totals) { to[at + c] = static_cast<float>(totals[0]); });
}

// Replaces the numbers of a group by value(their sum over the number of elements), one thread a group.
template <class Value>
__device__ void average(float* numbers, int64_t groups, int64_t width, int64_t positions, const Value& value) {
  const int64_t group = thread_index();
  if (group >= groups) {
    return;
  }
  float* const first = numbers + group * width;
  double total = 0;
  for (int64_t c = 0; c < width; ++c) {
    total += static_cast<double>(first[c]);
  }
  const float result = value(static_cast<float>(total / static_cast<double>(width * positions)));
  for (int64_t c = 0; c < width; ++c) {
    first[c] = result;
  }
}

// The numbers of a sample's channel that an element reads.
struct Place {
  int64_t channel, number;
  __device__ static Place of(int64_t i, int64_t positions, int64_t channels) {
    const int64_t channel = i % channels;
    return {channel, i / (positions * channels) * channels + channel};
  }
};

template <typename T>
__device__ void forward(const T* x, const float* means, const float* rstds, const float* weight, const float* bias,
                        T* y, int64_t n, int64_t positions, int64_t channels) {
  const int64_t i = thread_index();
  if (i < n) {
    const Place at = Place::of(i, positions, channels);
    const float xhat = standardized(to_float(x[i]), means[at.number], rstds[at.number]);
    assign(y[i], xhat * weight[at.channel] + bias[at.channel]);
  }
}

template <typename T>
__device__ void gradient_sums(const T* x, const T* dy, const float* means, const float* rstds, const float* weight,
                              double* sums_gx, double* sums_g, float* mean_gx, float* mean_g, int64_t positions,
                              int64_t channels) {
  const int64_t at = blockIdx.y * channels;
  reduce_columns<2>(
      positions, channels,
      [=](int64_t p, int64_t c, float* acc) {
        const int64_t i = at * positions + p * channels + c;
        const float g = to_float(dy[i]);
        acc[0] += g * standardized(to_float(x[i]), means[at + c], rstds[at + c]);
        acc[1] += g;
      },
      [=](int64_t c, const double* totals) {
        sums_gx[at + c] = totals[0];
        sums_g[at + c] = totals[1];
        mean_gx[at + c] = static_cast<float>(totals[0]) * weight[c];
        mean_g[at + c] = static_cast<float>(totals[1]) * weight[c];
      });
}

template <typename T>
__device__ void gradient(const T* x, const T* dy, const float* means, const float* rstds, const float* weight,
                         const float* mean_gx, const float* mean_g, T* dx, int64_t n, int64_t positions,
                         int64_t channels) {
  const int64_t i = thread_index();
  if (i < n) {
    const Place at = Place::of(i, positions, channels);
    const float rstd = rstds[at.number];
    const float xhat = standardized(to_float(x[i]), means[at.number], rstd);
    assign(dx[i],
           column_norm_dx(to_float(dy[i]) * weight[at.channel], mean_g[at.number], xhat, mean_gx[at.number], rstd));
  }
}

}  // namespace xrun::ops

// Sums of the positions, of x or of the squares of x - mean. Blocks of 32 x 8 threads for 32 channels (x) of a sample
// (y).
extern "C" __global__ void group_norm_sums_f32(const float* x, float* to, int64_t positions, int64_t channels) {
  sums(x, to, positions, channels);
}
extern "C" __global__ void group_norm_sums_bf16(const Bf16* x, float* to, int64_t positions, int64_t channels) {
  sums(x, to, positions, channels);
}
extern "C" __global__ void group_norm_squares_f32(const float* x, const float* means, float* to, int64_t positions,
                                                  int64_t channels) {
  squares(x, means, to, positions, channels);
}
extern "C" __global__ void group_norm_squares_bf16(const Bf16* x, const float* means, float* to, int64_t positions,
                                                   int64_t channels) {
  squares(x, means, to, positions, channels);
}

// Replaces sums by means, or sums of squares by 1 / sqrt(var + eps). One thread for each group of each sample.
extern "C" __global__ void group_norm_means(float* numbers, int64_t groups, int64_t width, int64_t positions) {
  average(numbers, groups, width, positions, [](float mean) { return mean; });
}
extern "C" __global__ void group_norm_rstds(float* numbers, int64_t groups, int64_t width, int64_t positions,
                                            float eps) {
  average(numbers, groups, width, positions, [=](float var) { return 1.0F / square_root(var + eps); });
}

// One thread for each of the n elements.
extern "C" __global__ void group_norm_f32(const float* x, const float* means, const float* rstds, const float* weight,
                                          const float* bias, float* y, int64_t n, int64_t positions, int64_t channels) {
  forward(x, means, rstds, weight, bias, y, n, positions, channels);
}
extern "C" __global__ void group_norm_bf16(const Bf16* x, const float* means, const float* rstds, const float* weight,
                                           const float* bias, Bf16* y, int64_t n, int64_t positions, int64_t channels) {
  forward(x, means, rstds, weight, bias, y, n, positions, channels);
}

// Sums of dy times the norm and of dy, in f64, and these sums times the weight. Grids like those of group_norm_sums_T.
extern "C" __global__ void group_norm_grad_sums_f32(const float* x, const float* dy, const float* means,
                                                    const float* rstds, const float* weight, double* sums_gx,
                                                    double* sums_g, float* mean_gx, float* mean_g, int64_t positions,
                                                    int64_t channels) {
  gradient_sums(x, dy, means, rstds, weight, sums_gx, sums_g, mean_gx, mean_g, positions, channels);
}
extern "C" __global__ void group_norm_grad_sums_bf16(const Bf16* x, const Bf16* dy, const float* means,
                                                     const float* rstds, const float* weight, double* sums_gx,
                                                     double* sums_g, float* mean_gx, float* mean_g, int64_t positions,
                                                     int64_t channels) {
  gradient_sums(x, dy, means, rstds, weight, sums_gx, sums_g, mean_gx, mean_g, positions, channels);
}

// One thread for each of the n elements.
extern "C" __global__ void group_norm_grad_f32(const float* x, const float* dy, const float* means, const float* rstds,
                                               const float* weight, const float* mean_gx, const float* mean_g,
                                               float* dx, int64_t n, int64_t positions, int64_t channels) {
  gradient(x, dy, means, rstds, weight, mean_gx, mean_g, dx, n, positions, channels);
}
extern "C" __global__ void group_norm_grad_bf16(const Bf16* x, const Bf16* dy, const float* means, const float* rstds,
                                                const float* weight, const float* mean_gx, const float* mean_g,
                                                Bf16* dx, int64_t n, int64_t positions, int64_t channels) {
  gradient(x, dy, means, rstds, weight, mean_gx, mean_g, dx, n, positions, channels);
}

// Adds the sums of `rows` samples of each row block in f64, and then row blocks in f32, in ascending order. One thread
// a channel.
extern "C" __global__ void group_norm_weights(const double* sums_gx, const double* sums_g, float* dweight, float* dbias,
                                              int64_t blocks, int64_t rows, int64_t channels) {
  const int64_t c = thread_index();
  for (int64_t b = 0; b < blocks && c < channels; ++b) {
    double gx = 0, g = 0;
    for (int64_t r = b * rows; r < (b + 1) * rows; ++r) {
      gx += sums_gx[r * channels + c];
      g += sums_g[r * channels + c];
    }
    dweight[c] += static_cast<float>(gx);
    dbias[c] += static_cast<float>(g);
  }
}
