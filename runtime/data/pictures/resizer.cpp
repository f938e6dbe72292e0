// A bilinear filter takes the rows first, since that pass has long vectors. A bicubic filter takes the columns first,
// as Pillow does: it cuts off overshoot after each pass, so the order of the passes matters. Tests:
// tests/runtime/data/pictures/resizer_test.cpp, tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/pictures/resizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <immintrin.h>

namespace xrun::runtime {
namespace {

constexpr int kMostLanes = 3;

double reach_of(ResizeFilter filter) { return filter == ResizeFilter::kBilinear ? 1 : 2; }

double filter_at(ResizeFilter filter, double distance) {
  const double x = std::fabs(distance);
  if (filter == ResizeFilter::kBilinear) {
    return std::max(0.0, 1 - x);
  }
  constexpr double kA = -0.5;
  return x < 1 ? ((kA + 2) * x - (kA + 3)) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

// The largest number of source pixels under a filter that reaches `reach` to each side.
int64_t taps_of(int64_t from, double reach) { return std::min(from, static_cast<int64_t>(std::ceil(reach)) * 2 + 1); }

int64_t whole_groups(int64_t width) { return (width + 7) / 8 * 8; }

__m256 load8(const float* at) { return _mm256_loadu_ps(at); }
__m256 load8(const uint8_t* at) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
}

// Returns the sum of weights[t] · row t over eight elements from `x` on.
template <typename T, typename RowAt>
__m256 weighted(std::span<const float> weights, const RowAt& row, int x) {
  __m256 sum = _mm256_setzero_ps();
  for (size_t t = 0; t < weights.size(); ++t) {
    sum = _mm256_fmadd_ps(_mm256_set1_ps(weights[t]), load8(row(t) + x), sum);
  }
  return sum;
}

// Sets to[x] to the sum of weights[t] · row(t)[x], for x < width. Elements of f32 rows may be read and written up to
// the end of a group of eight; those of byte rows end with the picture.
template <typename T, typename RowAt>
void blend(std::span<const float> weights, const RowAt& row, int width, float* to) {
  const int groups = std::is_same_v<T, float> ? static_cast<int>(whole_groups(width)) : width / 8 * 8;
  for (int x = 0; x < groups; x += 8) {
    _mm256_storeu_ps(to + x, weighted<T>(weights, row, x));
  }
  if (groups < width) {
    std::array<T, 8> last{};
    __m256 sum = _mm256_setzero_ps();
    for (size_t t = 0; t < weights.size(); ++t) {
      std::memcpy(last.data(), row(t) + groups, static_cast<size_t>(width - groups) * sizeof(T));
      sum = _mm256_fmadd_ps(_mm256_set1_ps(weights[t]), load8(last.data()), sum);
    }
    _mm256_storeu_ps(to + groups, sum);
  }
}

void clamp_bytes(float* row, int width) {
  for (int x = 0; x < width; ++x) {
    row[x] = std::clamp(row[x], 0.0f, 255.0f);
  }
}

}  // namespace

void Resizer::Axis::prepare(double box_begin, double box_length, int to_size, const ResizeMethod& how) {
  const double offset = box_begin - std::floor(box_begin);
  const auto pixels = static_cast<int>(std::ceil(offset + box_length));
  const bool same = from == pixels && begin == offset && length == box_length && to == to_size &&
                    method.filter == how.filter && method.antialias == how.antialias;
  method = how;
  if (same) {
    return;
  }
  from = pixels;
  begin = offset;
  length = box_length;
  to = to_size;
  const double ratio = length / to;
  const double scale = how.antialias ? std::max(1.0, ratio) : 1;
  const double reach = reach_of(how.filter) * scale;
  taps = static_cast<int>(taps_of(from, reach));
  first.assign(static_cast<size_t>(to), 0);
  count.assign(static_cast<size_t>(to), 0);
  weights.assign(static_cast<size_t>(to) * static_cast<size_t>(taps), 0);
  std::vector<double> values(static_cast<size_t>(taps));
  for (int i = 0; i < to; ++i) {
    const double centre = begin + (i + 0.5) * ratio;
    int left = std::clamp(static_cast<int>(centre - reach + 0.5), 0, from - taps);
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      values[static_cast<size_t>(t)] = filter_at(how.filter, (left + t + 0.5 - centre) / scale);
      sum += values[static_cast<size_t>(t)];
    }
    const auto has_weight = [](double value) { return value != 0; };
    const auto low = std::ranges::find_if(values, has_weight);
    const auto high = std::find_if(values.rbegin(), values.rend(), has_weight).base();
    std::transform(low, high, weights.begin() + static_cast<ptrdiff_t>(i) * taps,
                   [&](double value) { return static_cast<float>(value / sum); });
    first[static_cast<size_t>(i)] = left + static_cast<int>(low - values.begin());
    count[static_cast<size_t>(i)] = static_cast<int>(high - low);
  }
}

void Resizer::resize(const Picture& from, const ResizeMethod& method, Picture& to) {
  vertical_.prepare(0, from.height(), to.height(), method);
  horizontal_.prepare(0, from.width(), to.width(), method);
  for (int c = 0; c < to.channels(); ++c) {
    resize_rows(Rows<float>{from.row(c, 0), from.stride(), 1}, c, to);
  }
}

void Resizer::resize(const uint8_t* from, int width, const PictureBox& box, const ResizeMethod& method, Picture& to) {
  vertical_.prepare(box.top, box.height, to.height(), method);
  horizontal_.prepare(box.left, box.width, to.width(), method);
  const int channels = to.channels();
  const ptrdiff_t stride = static_cast<ptrdiff_t>(width) * channels;
  const uint8_t* first = from + static_cast<ptrdiff_t>(box.top) * stride + static_cast<ptrdiff_t>(box.left) * channels;
  resize_rows(Rows<uint8_t>{first, stride, channels}, 0, to);
}

Bytes Resizer::bytes(int channels, int64_t height, int64_t width, int64_t to_height, int64_t to_width) {
  const auto taps = [](int64_t from, int64_t to) {
    return taps_of(from, 2 * std::max(1.0, static_cast<double>(from) / static_cast<double>(to)));
  };
  const int64_t weights = to_height * (taps(height, to_height) + 2) + to_width * (taps(width, to_width) + 2);
  const int64_t rows = whole_groups(width * channels) + 8 + taps(height, to_height) * channels * whole_groups(to_width);
  return (weights + rows) * static_cast<Bytes>(sizeof(float));
}

template <typename T>
void Resizer::resize_rows(const Rows<T>& rows, int channel, Picture& to) {
  row_.resize(static_cast<size_t>(whole_groups(int64_t{horizontal_.from} * rows.lanes)) + 8);
  if (vertical_.method.filter == ResizeFilter::kBilinear) {
    rows_first(rows, channel, to);
  } else {
    columns_first(rows, channel, to);
  }
}

template <typename T>
void Resizer::rows_first(const Rows<T>& rows, int channel, Picture& to) {
  std::array<float*, kMostLanes> out{};
  for (int y = 0; y < to.height(); ++y) {
    const int begin = vertical_.first[static_cast<size_t>(y)];
    blend<T>(
        vertical_.weights_of(y), [&](size_t t) { return rows(begin + static_cast<int>(t)); },
        horizontal_.from * rows.lanes, row_.data());
    for (int c = 0; c < rows.lanes; ++c) {
      out[static_cast<size_t>(c)] = to.row(channel + c, y);
    }
    resize_row(row_.data(), rows.lanes, out.data());
  }
}

template <typename T>
void Resizer::columns_first(const Rows<T>& rows, int channel, Picture& to) {
  const auto width = static_cast<ptrdiff_t>(whole_groups(to.width()));
  ring_.resize(static_cast<size_t>(vertical_.taps * rows.lanes * width));
  const auto ring_row = [&](int y, int c) {
    return ring_.data() + (ptrdiff_t{y % vertical_.taps} * rows.lanes + c) * width;
  };
  constexpr float kOne[] = {1};
  std::array<float*, kMostLanes> out{};
  int next = 0;  // the first row of the source that has not been resized yet
  for (int y = 0; y < to.height(); ++y) {
    const int begin = vertical_.first[static_cast<size_t>(y)];
    const std::span<const float> weights = vertical_.weights_of(y);
    for (next = std::max(next, begin); next < begin + static_cast<int>(weights.size()); ++next) {
      for (int c = 0; c < rows.lanes; ++c) {
        out[static_cast<size_t>(c)] = ring_row(next, c);
      }
      blend<T>(
          kOne, [&](size_t) { return rows(next); }, horizontal_.from * rows.lanes, row_.data());
      resize_row(row_.data(), rows.lanes, out.data());
      for (int c = 0; c < rows.lanes && vertical_.method.is_bytes; ++c) {
        clamp_bytes(ring_row(next, c), to.width());
      }
    }
    for (int c = 0; c < rows.lanes; ++c) {
      blend<float>(
          weights, [&](size_t t) { return ring_row(begin + static_cast<int>(t), c); }, to.width(),
          to.row(channel + c, y));
      if (vertical_.method.is_bytes) {
        clamp_bytes(to.row(channel + c, y), to.width());
      }
    }
  }
}

// Resizes one row of `lanes` interleaved channels to a row of each channel.
void Resizer::resize_row(const float* from, int lanes, float* const* to) const {
  for (int x = 0; x < horizontal_.to; ++x) {
    const std::span<const float> weights = horizontal_.weights_of(x);
    const float* at = from + ptrdiff_t{horizontal_.first[static_cast<size_t>(x)]} * lanes;
    if (lanes == kMostLanes) {
      __m128 sum = _mm_setzero_ps();  // the fourth lane is not used
      for (const float weight : weights) {
        sum = _mm_add_ps(sum, _mm_mul_ps(_mm_set1_ps(weight), _mm_loadu_ps(at)));
        at += kMostLanes;
      }
      std::array<float, 4> sums;
      _mm_storeu_ps(sums.data(), sum);
      for (int c = 0; c < kMostLanes; ++c) {
        to[c][x] = sums[static_cast<size_t>(c)];
      }
      continue;
    }
    float sum = 0;
    for (const float weight : weights) {
      sum += weight * *at++;
    }
    to[0][x] = sum;
  }
}

}  // namespace xrun::runtime
