// Tests: tests/runtime/data/augment/rand_augment_test.cpp
#include "runtime/data/pictures/byte_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace xrun::runtime {
namespace {

constexpr int kValues = 256;

// A new value for each value of a pixel.
using Table = std::array<float, kValues>;

size_t value_of(float pixel) { return static_cast<size_t>(pixel); }

// Calls body(row, c, y) for each row of each channel.
template <typename Body>
void for_rows(Picture& picture, Body body) {
  for (int c = 0; c < picture.channels(); ++c) {
    for (int y = 0; y < picture.height(); ++y) {
      body(picture.row(c, y), c, y);
    }
  }
}

void look_up(Picture& picture, int channel, const Table& table) {
  for (int y = 0; y < picture.height(); ++y) {
    float* row = picture.row(channel, y);
    std::transform(row, row + picture.width(), row, [&](float x) { return table[value_of(x)]; });
  }
}

template <typename NewValue>
void look_up_all(Picture& picture, NewValue new_value) {
  Table table;
  for (int i = 0; i < kValues; ++i) {
    table[static_cast<size_t>(i)] = new_value(i);
  }
  for (int c = 0; c < picture.channels(); ++c) {
    look_up(picture, c, table);
  }
}

std::array<int64_t, kValues> histogram(const Picture& picture, int channel) {
  std::array<int64_t, kValues> counts{};
  for (int y = 0; y < picture.height(); ++y) {
    const float* row = picture.row(channel, y);
    for (int x = 0; x < picture.width(); ++x) {
      ++counts[value_of(row[x])];
    }
  }
  return counts;
}

// Image.blend: `from` for the factor 0, `to` for 1. Products and sums are those of f32.
float blended(float from, float to, float factor) {
  return std::trunc(std::clamp(from + factor * (to - from), 0.0F, 255.0F));
}

// The grey value of a pixel, with the integer weights of Pillow's conversion to "L".
int grey_at(const Picture& picture, int y, int x) {
  const auto value = [&](int c) { return static_cast<int>(picture.row(c, y)[x]); };
  constexpr int kHalf = 0x8000;
  return picture.channels() == 3 ? (value(0) * 19595 + value(1) * 38470 + value(2) * 7471 + kHalf) >> 16 : value(0);
}

}  // namespace

void round_to_bytes(Picture& picture) {
  for_rows(picture, [&](float* row, int, int) {
    std::transform(row, row + picture.width(), row,
                   [](float x) { return std::nearbyint(std::clamp(x, 0.0F, 255.0F)); });
  });
}

void adjust_brightness(Picture& picture, float factor) {
  look_up_all(picture, [&](int i) { return blended(0, static_cast<float>(i), factor); });
}

void adjust_color(Picture& picture, float factor) {
  for (int y = 0; y < picture.height() && picture.channels() == 3; ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      const auto grey = static_cast<float>(grey_at(picture, y, x));
      for (int c = 0; c < picture.channels(); ++c) {
        float& pixel = picture.row(c, y)[x];
        pixel = blended(grey, pixel, factor);
      }
    }
  }
}

void adjust_contrast(Picture& picture, float factor) {
  int64_t sum = 0;
  for (int y = 0; y < picture.height(); ++y) {
    for (int x = 0; x < picture.width(); ++x) {
      sum += grey_at(picture, y, x);
    }
  }
  const double pixels = static_cast<double>(picture.height()) * picture.width();
  const auto mean = static_cast<float>(std::floor(static_cast<double>(sum) / pixels + 0.5));
  look_up_all(picture, [&](int i) { return blended(mean, static_cast<float>(i), factor); });
}

void adjust_sharpness(Picture& picture, float factor, Picture& smooth) {
  constexpr float kWeights = 13;  // eight neighbours, and five for the pixel
  smooth.reshape(picture.channels(), picture.height(), picture.width());
  for_rows(smooth, [&](float* to, int c, int y) {
    const float* here = picture.row(c, y);
    std::copy_n(here, picture.width(), to);
    if (y == 0 || y == picture.height() - 1) {
      return;
    }
    const float* above = picture.row(c, y - 1);
    const float* below = picture.row(c, y + 1);
    for (int x = 1; x < picture.width() - 1; ++x) {
      const float sum = above[x - 1] + above[x] + above[x + 1] + here[x - 1] + 5 * here[x] + here[x + 1] +
                        below[x - 1] + below[x] + below[x + 1];
      to[x] = std::floor(sum / kWeights + 0.5F);
    }
  });
  for_rows(picture, [&](float* row, int c, int y) {
    std::transform(row, row + picture.width(), smooth.row(c, y), row,
                   [&](float x, float other) { return blended(other, x, factor); });
  });
}

void posterize(Picture& picture, int bits) {
  const int mask = ~((1 << (8 - bits)) - 1);
  look_up_all(picture, [&](int i) { return static_cast<float>(i & mask); });
}

void solarize(Picture& picture, double threshold) {
  look_up_all(picture, [&](int i) { return static_cast<float>(i < threshold ? i : 255 - i); });
}

void autocontrast(Picture& picture) {
  for (int c = 0; c < picture.channels(); ++c) {
    const auto counts = histogram(picture, c);
    const auto used = [](int64_t count) { return count > 0; };
    const auto low = std::ranges::find_if(counts, used) - counts.begin();
    const auto high = kValues - 1 - (std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin());
    if (high <= low) {
      continue;
    }
    const double scale = 255.0 / static_cast<double>(high - low);
    const double offset = static_cast<double>(-low) * scale;
    Table table;
    for (int i = 0; i < kValues; ++i) {
      table[static_cast<size_t>(i)] = static_cast<float>(std::trunc(std::clamp(i * scale + offset, 0.0, 255.0)));
    }
    look_up(picture, c, table);
  }
}

void equalize(Picture& picture) {
  const int64_t pixels = int64_t{picture.height()} * picture.width();
  for (int c = 0; c < picture.channels(); ++c) {
    const auto counts = histogram(picture, c);
    const auto last = std::find_if(counts.rbegin(), counts.rend(), [](int64_t count) { return count > 0; });
    const int64_t step = (pixels - *last) / 255;
    if (step == 0 || *last == pixels) {
      continue;
    }
    Table table;
    int64_t sum = step / 2;
    for (size_t i = 0; i < counts.size(); ++i) {
      table[i] = static_cast<float>(std::min<int64_t>(sum / step, 255));
      sum += counts[i];
    }
    look_up(picture, c, table);
  }
}

void warp_nearest(const Picture& from, const PointMap& map, float fill, Picture& to) {
  constexpr double kOne = 65536;  // coordinates have 16 bits after the point
  constexpr int kShift = 16;
  const auto fixed = [](double v) { return static_cast<int64_t>(std::floor(v * kOne + 0.5)); };
  const int64_t across_x = fixed(map[0]), down_x = fixed(map[1]);
  const int64_t across_y = fixed(map[3]), down_y = fixed(map[4]);
  const int64_t first_x = fixed(map[2] + map[0] * 0.5 + map[1] * 0.5);
  const int64_t first_y = fixed(map[5] + map[3] * 0.5 + map[4] * 0.5);
  for (int y = 0; y < to.height(); ++y) {
    for (int x = 0; x < to.width(); ++x) {
      const int64_t at_x = (first_x + x * across_x + y * down_x) >> kShift;
      const int64_t at_y = (first_y + x * across_y + y * down_y) >> kShift;
      const bool inside = at_x >= 0 && at_x < from.width() && at_y >= 0 && at_y < from.height();
      for (int c = 0; c < to.channels(); ++c) {
        to.row(c, y)[x] = inside ? from.row(c, static_cast<int>(at_y))[at_x] : fill;
      }
    }
  }
}

}  // namespace xrun::runtime
