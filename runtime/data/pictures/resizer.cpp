// Tests: tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/pictures/resizer.h"

#include <algorithm>
#include <cmath>
#include <immintrin.h>

namespace xrun::runtime {
namespace {

// The largest number of source pixels under the filter of an output pixel.
int64_t taps_of(int64_t from, int64_t to) {
  const double reach = std::max(1.0, static_cast<double>(from) / static_cast<double>(to));
  return std::min(from, static_cast<int64_t>(std::ceil(reach)) * 2 + 1);
}

}  // namespace

void Resizer::Axis::prepare(int from_size, int to_size) {
  if (from == from_size && to == to_size) {
    return;
  }
  from = from_size;
  to = to_size;
  const double ratio = static_cast<double>(from) / to;
  const double reach = std::max(1.0, ratio);  // half the width of the triangle
  taps = static_cast<int>(taps_of(from, to));
  first.assign(static_cast<size_t>(to), 0);
  weights.assign(static_cast<size_t>(to) * static_cast<size_t>(taps), 0);
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * ratio;
    const int begin = std::clamp(static_cast<int>(centre - reach + 0.5), 0, from - taps);
    float* w = weights.data() + static_cast<ptrdiff_t>(i) * taps;
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      sum += std::max(0.0, 1 - std::fabs(begin + t + 0.5 - centre) / reach);
    }
    for (int t = 0; t < taps; ++t) {
      w[t] = static_cast<float>(std::max(0.0, 1 - std::fabs(begin + t + 0.5 - centre) / reach) / sum);
    }
    first[static_cast<size_t>(i)] = begin;
  }
}

namespace {

struct PictureRows {
  const Picture& from;
  int channel = 0;

  void begin_channel(int c) { channel = c; }
  void hold(int, int) {}
  const float* operator()(int y) const { return from.row(channel, y); }
};

// Rows of bytes that are converted to f32 in a ring of `count` rows: row y replaces row y - count.
struct ByteRows {
  const uint8_t* from;
  int channels;
  int width;
  int count;    // number of rows in the ring
  float* held;  // the rows: [count, stride]
  int stride;
  int channel = 0;
  int next = 0;  // the first row that has not been converted yet

  void begin_channel(int c) {
    channel = c;
    next = 0;
  }
  void hold(int begin, int end) {
    for (next = std::max(next, begin); next < end; ++next) {
      const uint8_t* at = from + (ptrdiff_t{next} * width) * channels + channel;
      float* row = held + ptrdiff_t{next % count} * stride;
      for (int x = 0; x < width; ++x) {
        row[x] = static_cast<float>(at[x * ptrdiff_t{channels}]);
      }
    }
  }
  const float* operator()(int y) const { return held + ptrdiff_t{y % count} * stride; }
};

int64_t whole_groups(int64_t width) { return (width + 7) / 8 * 8; }

}  // namespace

void Resizer::resize(const Picture& from, Picture& to) {
  vertical_.prepare(from.height(), to.height());
  resize_rows(from.width(), PictureRows{from}, to);
}

void Resizer::resize(const uint8_t* from, int height, int width, Picture& to) {
  vertical_.prepare(height, to.height());
  const auto stride = static_cast<int>(whole_groups(width));
  held_.resize(static_cast<size_t>(vertical_.taps) * static_cast<size_t>(stride));
  resize_rows(width, ByteRows{from, to.channels(), width, vertical_.taps, held_.data(), stride}, to);
}

Bytes Resizer::bytes(int64_t height, int64_t width, int64_t to_height) {
  return (taps_of(height, to_height) + 1) * whole_groups(width) * static_cast<Bytes>(sizeof(float));
}

template <typename Rows>
void Resizer::resize_rows(int width, Rows rows, Picture& to) {
  horizontal_.prepare(width, to.width());
  middle_.resize(static_cast<size_t>(whole_groups(width)));
  for (int c = 0; c < to.channels(); ++c) {
    rows.begin_channel(c);
    for (int y = 0; y < to.height(); ++y) {
      const int begin = vertical_.first[static_cast<size_t>(y)];
      rows.hold(begin, begin + vertical_.taps);
      blend(width, y, rows);
      float* out = to.row(c, y);
      for (int x = 0; x < to.width(); ++x) {
        const float* w = horizontal_.weights.data() + ptrdiff_t{x} * horizontal_.taps;
        const float* at = middle_.data() + horizontal_.first[static_cast<size_t>(x)];
        float sum = 0;
        for (int t = 0; t < horizontal_.taps; ++t) {
          sum += w[t] * at[t];
        }
        out[x] = sum;
      }
    }
  }
}

template <typename Rows>
void Resizer::blend(int width, int y, const Rows& rows) {
  const float* w = vertical_.weights.data() + ptrdiff_t{y} * vertical_.taps;
  const int begin = vertical_.first[static_cast<size_t>(y)];
  for (int x = 0; x < width; x += 8) {
    __m256 sum = _mm256_setzero_ps();
    for (int t = 0; t < vertical_.taps; ++t) {
      sum = _mm256_fmadd_ps(_mm256_set1_ps(w[t]), _mm256_loadu_ps(rows(begin + t) + x), sum);
    }
    _mm256_storeu_ps(middle_.data() + x, sum);
  }
}

}  // namespace xrun::runtime
