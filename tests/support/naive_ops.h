// Computes operators by their formulas, in f64 and logical order. They are oracles for kernels.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace xrun::naive {

using Values = std::vector<double>;

struct Image {
  int64_t n, c, h, w;
};

// A value for the height and one for the width.
struct Pair {
  int64_t h, w;
  constexpr Pair(int64_t both) : h(both), w(both) {}
  constexpr Pair(int64_t height, int64_t width) : h(height), w(width) {}
};

struct Window {
  Pair k = 1, stride = 1, pad = 0, dilation = 1;
  int64_t groups = 1;
  int64_t out_h(const Image& s) const { return (s.h + 2 * pad.h - dilation.h * (k.h - 1) - 1) / stride.h + 1; }
  int64_t out_w(const Image& s) const { return (s.w + 2 * pad.w - dilation.w * (k.w - 1) - 1) / stride.w + 1; }
};

inline double at(const Values& x, const Image& s, int64_t n, int64_t c, int64_t i, int64_t j) {
  return i < 0 || j < 0 || i >= s.h || j >= s.w ? 0.0 : x[static_cast<size_t>(((n * s.c + c) * s.h + i) * s.w + j)];
}

// x [n, c, h, w], weight [out, c / groups, k.h, k.w], bias [out] or empty.
inline Values conv(const Values& x, const Image& s, const Values& weight, const Values& bias, int64_t out,
                   const Window& w) {
  Values y;
  const int64_t inner = s.c / w.groups;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t o = 0; o < out; ++o) {
      const int64_t first = o / (out / w.groups) * inner;
      for (int64_t i = 0; i < w.out_h(s); ++i) {
        for (int64_t j = 0; j < w.out_w(s); ++j) {
          double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(o)];
          for (int64_t c = 0; c < inner; ++c) {
            for (int64_t u = 0; u < w.k.h; ++u) {
              for (int64_t v = 0; v < w.k.w; ++v) {
                sum += weight[static_cast<size_t>(((o * inner + c) * w.k.h + u) * w.k.w + v)] *
                       at(x, s, n, first + c, i * w.stride.h + u * w.dilation.h - w.pad.h,
                          j * w.stride.w + v * w.dilation.w - w.pad.w);
              }
            }
          }
          y.push_back(sum);
        }
      }
    }
  }
  return y;
}

// Returns the largest cell of each window, or the mean of the window's cells inside the image.
inline Values pool(const Values& x, const Image& s, const Window& w, bool largest) {
  Values y;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t c = 0; c < s.c; ++c) {
      for (int64_t i = 0; i < w.out_h(s); ++i) {
        for (int64_t j = 0; j < w.out_w(s); ++j) {
          double best = -INFINITY;
          double sum = 0;
          int count = 0;
          for (int64_t u = i * w.stride.h - w.pad.h; u < i * w.stride.h - w.pad.h + w.k.h; ++u) {
            for (int64_t v = j * w.stride.w - w.pad.w; v < j * w.stride.w - w.pad.w + w.k.w; ++v) {
              if (u >= 0 && v >= 0 && u < s.h && v < s.w) {
                best = std::max(best, at(x, s, n, c, u, v));
                sum += at(x, s, n, c, u, v);
                ++count;
              }
            }
          }
          y.push_back(largest ? best : sum / count);
        }
      }
    }
  }
  return y;
}

struct Normalized {
  Values y, mean, var;
};

// Normalises each channel over samples and positions, with the biased variance.
inline Normalized batch_norm(const Values& x, const Image& s, const Values& weight, const Values& bias, double eps) {
  Normalized out{.y = Values(x.size()), .mean = {}, .var = {}};
  const auto count = static_cast<double>(s.n * s.h * s.w);
  for (int64_t c = 0; c < s.c; ++c) {
    double mean = 0;
    double var = 0;
    const auto each = [&](const auto& visit) {
      for (int64_t n = 0; n < s.n; ++n) {
        for (int64_t p = 0; p < s.h * s.w; ++p) {
          visit(static_cast<size_t>((n * s.c + c) * s.h * s.w + p));
        }
      }
    };
    each([&](size_t i) { mean += x[i] / count; });
    each([&](size_t i) { var += (x[i] - mean) * (x[i] - mean) / count; });
    const auto ch = static_cast<size_t>(c);
    each([&](size_t i) { out.y[i] = weight[ch] * (x[i] - mean) / std::sqrt(var + eps) + bias[ch]; });
    out.mean.push_back(mean);
    out.var.push_back(var);
  }
  return out;
}

// x [rows, in], weight [out, in], bias [out] or empty.
inline Values linear(const Values& x, const Values& weight, const Values& bias, int64_t rows, int64_t in, int64_t out) {
  Values y;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < in; ++i) {
        sum += x[static_cast<size_t>(r * in + i)] * weight[static_cast<size_t>(o * in + i)];
      }
      y.push_back(sum);
    }
  }
  return y;
}

}  // namespace xrun::naive
