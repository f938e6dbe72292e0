// Tests: tests/runtime/data/augment/transform_test.cpp, tests/runtime/data/readers/reader_test.cpp
#include "runtime/data/pictures/picture.h"

#include <algorithm>
#include <cmath>
#include <immintrin.h>

#include "graph/base/check.h"

namespace xrun::runtime {
namespace {

// Calls body(c, y, x) for the first pixel of each group of eight; the last group of a row may extend past its end.
template <typename Body>
void for_groups(const Picture& picture, Body body) {
  for (int c = 0; c < picture.channels(); ++c) {
    for (int y = 0; y < picture.height(); ++y) {
      for (int x = 0; x < picture.width(); x += 8) {
        body(c, y, x);
      }
    }
  }
}

template <typename T>
void load(const T* from, ptrdiff_t pixel, ptrdiff_t plane, ptrdiff_t stride, Picture& to) {
  for (int c = 0; c < to.channels(); ++c) {
    const T* at = from + c * plane;
    for (int y = 0; y < to.height(); ++y, at += stride) {
      float* row = to.row(c, y);
      for (int x = 0; x < to.width(); ++x) {
        row[x] = static_cast<float>(at[x * pixel]);
      }
    }
  }
}

}  // namespace

void Picture::reshape(int channels, int height, int width) {
  XRUN_DCHECK(channels > 0 && height > 0 && width > 0, "an empty picture");
  channels_ = channels;
  height_ = height;
  width_ = width;
  stride_ = static_cast<int>(stride_of(width));
  data_.resize(static_cast<size_t>(bytes(channels, height, width)) / sizeof(float));
}

Bytes Picture::bytes(int channels, int64_t height, int64_t width) {
  // Adds 16 floats after the last plane, since vector code may access them.
  return (channels * (height + 2) * stride_of(width) + 16) * static_cast<Bytes>(sizeof(float));
}

void Picture::zero_border() {
  for (int c = 0; c < channels_; ++c) {
    std::fill_n(row(c, -1) - 1, width_ + 2, 0.0f);
    std::fill_n(row(c, height_) - 1, width_ + 2, 0.0f);
    for (int y = 0; y < height_; ++y) {
      row(c, y)[-1] = 0;
      row(c, y)[width_] = 0;
    }
  }
}

void Picture::replicate_border() {
  for (int c = 0; c < channels_; ++c) {
    for (int y = 0; y < height_; ++y) {
      float* at = row(c, y);
      at[-1] = at[0];
      at[width_] = at[width_ - 1];
    }
    std::copy_n(row(c, 0) - 1, width_ + 2, row(c, -1) - 1);
    std::copy_n(row(c, height_ - 1) - 1, width_ + 2, row(c, height_) - 1);
  }
}

void load_planar(const uint8_t* from, Picture& to) {
  const ptrdiff_t plane = ptrdiff_t{to.height()} * to.width();
  if (to.width() % 8 != 0) {
    load(from, 1, plane, to.width(), to);
    return;
  }
  for_groups(to, [&](int c, int y, int x) {
    const auto* at = reinterpret_cast<const __m128i*>(from + c * plane + ptrdiff_t{y} * to.width() + x);
    _mm256_storeu_ps(to.row(c, y) + x, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at))));
  });
}

void load_planar(const float* from, Picture& to) { load(from, 1, ptrdiff_t{to.height()} * to.width(), to.width(), to); }
void load_interleaved(const uint8_t* from, Picture& to) {
  load_interleaved(from, ptrdiff_t{to.width()} * to.channels(), to);
}
void load_interleaved(const uint8_t* from, ptrdiff_t row_bytes, Picture& to) {
  load(from, to.channels(), 1, row_bytes, to);
}

void scale_shift(Picture& picture, std::span<const float> factor, std::span<const float> offset) {
  for_groups(picture, [&](int c, int y, int x) {
    float* at = picture.row(c, y) + x;
    const __m256 k = _mm256_set1_ps(factor[factor.size() == 1 ? 0 : static_cast<size_t>(c)]);
    const __m256 b = _mm256_set1_ps(offset[offset.size() == 1 ? 0 : static_cast<size_t>(c)]);
    _mm256_storeu_ps(at, _mm256_fmadd_ps(_mm256_loadu_ps(at), k, b));
  });
}

void crop(const Picture& from, int top, int left, Picture& to) {
  for (int c = 0; c < to.channels(); ++c) {
    for (int y = 0; y < to.height(); ++y) {
      float* out = to.row(c, y);
      std::fill_n(out, to.width(), 0.0f);
      const int begin = std::max(0, -left);
      const int end = std::min(to.width(), from.width() - left);
      if (y + top >= 0 && y + top < from.height() && begin < end) {
        std::copy_n(from.row(c, y + top) + left + begin, end - begin, out + begin);
      }
    }
  }
}

void flip_horizontally(Picture& picture) {
  for (int c = 0; c < picture.channels(); ++c) {
    for (int y = 0; y < picture.height(); ++y) {
      std::reverse(picture.row(c, y), picture.row(c, y) + picture.width());
    }
  }
}

void warp(Picture& from, const Affine& affine, Picture& to) {
  from.zero_border();
  const int width = from.width();
  const int height = from.height();
  const float centre_x = static_cast<float>(width - 1) / 2;
  const float centre_y = static_cast<float>(height - 1) / 2;
  const auto& m = affine.matrix;
  const __m256 lanes = _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7);
  // A point beyond the border reads only zeros, like a point on it. So clamping to the border changes nothing.
  const __m256 low = _mm256_set1_ps(-1);
  const __m256 high_x = _mm256_set1_ps(static_cast<float>(width));
  const __m256 high_y = _mm256_set1_ps(static_cast<float>(height));
  const __m256i last_x = _mm256_set1_epi32(width - 1);
  const __m256i last_y = _mm256_set1_epi32(height - 1);
  const __m256i stride = _mm256_set1_epi32(from.stride());
  for (int y = 0; y < height; ++y) {
    const float py = static_cast<float>(y) - centre_y - affine.shift_y;
    const float px = -centre_x - affine.shift_x;
    const float start_x = m[0] * px + m[1] * py + centre_x;
    const float start_y = m[2] * px + m[3] * py + centre_y;
    for (int x = 0; x < width; x += 8) {
      const __m256 step = _mm256_add_ps(lanes, _mm256_set1_ps(static_cast<float>(x)));
      __m256 qx = _mm256_fmadd_ps(step, _mm256_set1_ps(m[0]), _mm256_set1_ps(start_x));
      __m256 qy = _mm256_fmadd_ps(step, _mm256_set1_ps(m[2]), _mm256_set1_ps(start_y));
      qx = _mm256_min_ps(_mm256_max_ps(qx, low), high_x);
      qy = _mm256_min_ps(_mm256_max_ps(qy, low), high_y);
      const __m256i x0 = _mm256_min_epi32(_mm256_cvttps_epi32(_mm256_floor_ps(qx)), last_x);
      const __m256i y0 = _mm256_min_epi32(_mm256_cvttps_epi32(_mm256_floor_ps(qy)), last_y);
      const __m256 fx = _mm256_sub_ps(qx, _mm256_cvtepi32_ps(x0));
      const __m256 fy = _mm256_sub_ps(qy, _mm256_cvtepi32_ps(y0));
      const __m256i at = _mm256_add_epi32(_mm256_mullo_epi32(y0, stride), x0);
      for (int c = 0; c < from.channels(); ++c) {
        const float* plane = from.row(c, 0);
        const float* below = plane + from.stride();
        const __m256 a = _mm256_i32gather_ps(plane, at, 4);
        const __m256 b = _mm256_i32gather_ps(plane + 1, at, 4);
        const __m256 d = _mm256_i32gather_ps(below, at, 4);
        const __m256 e = _mm256_i32gather_ps(below + 1, at, 4);
        const __m256 upper = _mm256_fmadd_ps(fx, _mm256_sub_ps(b, a), a);
        const __m256 lower = _mm256_fmadd_ps(fx, _mm256_sub_ps(e, d), d);
        _mm256_storeu_ps(to.row(c, y) + x, _mm256_fmadd_ps(fy, _mm256_sub_ps(lower, upper), upper));
      }
    }
  }
}

namespace {

// Combines the 3 x 3 pixels around each pixel by `fold`, rows first, and mixes the result with the pixel by `mix`.
template <typename Fold, typename Mix>
void stencil(Picture& from, Picture& to, Fold fold, Mix mix) {
  from.replicate_border();
  for (int c = 0; c < from.channels(); ++c) {
    for (int x = 0; x < from.width(); x += 8) {
      const auto across = [&](int y) {
        const float* at = from.row(c, y) + x;
        return fold(fold(_mm256_loadu_ps(at - 1), _mm256_loadu_ps(at)), _mm256_loadu_ps(at + 1));
      };
      __m256 above = across(-1);
      __m256 here = across(0);
      for (int y = 0; y < from.height(); ++y) {
        const __m256 below = across(y + 1);
        const __m256 pixel = _mm256_loadu_ps(from.row(c, y) + x);
        _mm256_storeu_ps(to.row(c, y) + x, mix(pixel, fold(fold(above, here), below)));
        above = here;
        here = below;
      }
    }
  }
}

}  // namespace

void stroke(Picture& from, float u, Picture& to) {
  const __m256 weight = _mm256_set1_ps(std::fabs(u));
  const auto mix = [&](__m256 pixel, __m256 folded) {
    return _mm256_fmadd_ps(weight, _mm256_sub_ps(folded, pixel), pixel);
  };
  if (u > 0) {
    stencil(
        from, to, [](__m256 a, __m256 b) { return _mm256_max_ps(a, b); }, mix);
  } else {
    stencil(
        from, to, [](__m256 a, __m256 b) { return _mm256_min_ps(a, b); }, mix);
  }
}

void blur(Picture& from, float weight, Picture& to) {
  const __m256 w = _mm256_set1_ps(weight);
  const __m256 ninth = _mm256_set1_ps(1.0f / 9);
  stencil(
      from, to, [](__m256 a, __m256 b) { return _mm256_add_ps(a, b); },
      [&](__m256 pixel, __m256 sum) { return _mm256_fmadd_ps(w, _mm256_fmsub_ps(sum, ninth, pixel), pixel); });
}

void gaussian_blur(const Picture& from, int kernel, float sigma, Picture& to, std::vector<float>& line) {
  const int half = kernel / 2;
  const int width = from.width();
  const int height = from.height();
  // The weights come first in `line`, and a row with its border follows.
  line.resize(static_cast<size_t>(kernel + width + 2 * half));
  float* const weights = line.data();
  float* const row = line.data() + kernel + half;
  float sum = 0;
  for (int t = 0; t < kernel; ++t) {
    const float distance = static_cast<float>(t - half) / sigma;
    weights[t] = std::exp(-0.5F * distance * distance);
    sum += weights[t];
  }
  std::transform(weights, weights + kernel, weights, [&](float w) { return w / sum; });
  const auto reflected = [](int i, int size) { return i < 0 ? -i : (i < size ? i : 2 * (size - 1) - i); };
  for (int c = 0; c < from.channels(); ++c) {
    for (int y = 0; y < height; ++y) {
      std::fill_n(row, width, 0.0F);
      for (int t = 0; t < kernel; ++t) {
        const float* at = from.row(c, reflected(y + t - half, height));
        for (int x = 0; x < width; ++x) {
          row[x] += weights[t] * at[x];
        }
      }
      for (int x = 1; x <= half; ++x) {
        row[-x] = row[x];
        row[width - 1 + x] = row[width - 1 - x];
      }
      float* out = to.row(c, y);
      std::fill_n(out, width, 0.0F);
      for (int t = 0; t < kernel; ++t) {
        for (int x = 0; x < width; ++x) {
          out[x] += weights[t] * row[x + t - half];
        }
      }
    }
  }
}

void add_noise(Picture& picture, float sigma, const RandomStream& stream, std::vector<uint32_t>& draws) {
  draws.resize(static_cast<size_t>(picture.elements()) + 8);
  stream.fill(0, draws);
  // A sum of four bytes, each uniform on 0..255: mean 510, variance 4 · (256² - 1) / 12.
  const __m256 scale = _mm256_set1_ps(sigma / 147.80054f);
  const __m256i mean = _mm256_set1_epi32(510);
  const __m256i ones8 = _mm256_set1_epi8(1);
  const __m256i ones16 = _mm256_set1_epi16(1);
  const __m256 zero = _mm256_setzero_ps();
  const __m256 one = _mm256_set1_ps(1);
  for_groups(picture, [&](int c, int y, int x) {
    const size_t first = (static_cast<size_t>(c) * static_cast<size_t>(picture.height()) + static_cast<size_t>(y)) *
                             static_cast<size_t>(picture.width()) +
                         static_cast<size_t>(x);
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(draws.data() + first));
    const __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(bits, ones8), ones16);
    const __m256 z = _mm256_cvtepi32_ps(_mm256_sub_epi32(sum, mean));
    float* at = picture.row(c, y) + x;
    const __m256 noisy = _mm256_fmadd_ps(z, scale, _mm256_loadu_ps(at));
    _mm256_storeu_ps(at, _mm256_min_ps(_mm256_max_ps(noisy, zero), one));
  });
}

}  // namespace xrun::runtime
