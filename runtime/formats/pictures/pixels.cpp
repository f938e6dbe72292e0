// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/pixels.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

struct Rgba {
  int r = 0;
  int g = 0;
  int b = 0;
  int a = 255;
};

// Returns a * b / 255 for two bytes, rounded.
int product(int a, int b) { return (a * b + 127) / 255; }

template <PixelLayout kLayout>
Rgba pixel_at(const uint8_t* p) {
  switch (kLayout) {
    case PixelLayout::kGrey:
      return {p[0], p[0], p[0]};
    case PixelLayout::kGreyAlpha:
      return {p[0], p[0], p[0], p[1]};
    case PixelLayout::kRgb:
      return {p[0], p[1], p[2]};
    case PixelLayout::kRgba:
      return {p[0], p[1], p[2], p[3]};
    case PixelLayout::kInvertedCmyk:
      return {product(p[0], p[3]), product(p[1], p[3]), product(p[2], p[3])};
  }
}

// The weights of ITU-R 601 in units of 2^-16; they add up to one, so grey pixels do not change.
uint8_t grey_of(const Rgba& p) { return static_cast<uint8_t>((p.r * 19595 + p.g * 38470 + p.b * 7471 + 0x8000) >> 16); }

int over(int value, int alpha, int background) { return (value * alpha + background * (255 - alpha) + 127) / 255; }

template <PixelLayout kLayout>
void convert(const uint8_t* from, size_t width, const PixelTarget& target, uint8_t* to) {
  const auto& behind = target.background;
  for (size_t x = 0; x < width; ++x, from += bytes_of(kLayout), to += target.channels) {
    Rgba p = pixel_at<kLayout>(from);
    if constexpr (kLayout == PixelLayout::kGreyAlpha || kLayout == PixelLayout::kRgba) {
      p = {over(p.r, p.a, behind[0]), over(p.g, p.a, behind[1]), over(p.b, p.a, behind[2])};
    }
    if (target.channels == 1) {
      to[0] = grey_of(p);
    } else {
      to[0] = static_cast<uint8_t>(p.r);
      to[1] = static_cast<uint8_t>(p.g);
      to[2] = static_cast<uint8_t>(p.b);
    }
  }
}

}  // namespace

int bytes_of(PixelLayout layout) {
  constexpr int kBytes[] = {1, 2, 3, 4, 4};
  return kBytes[static_cast<int>(layout)];
}

void convert_row(PixelLayout layout, const uint8_t* from, size_t width, const PixelTarget& target, uint8_t* to) {
  if (bytes_of(layout) == target.channels) {
    std::memcpy(to, from, width * static_cast<size_t>(target.channels));
    return;
  }
  switch (layout) {
    case PixelLayout::kGrey:
      return convert<PixelLayout::kGrey>(from, width, target, to);
    case PixelLayout::kGreyAlpha:
      return convert<PixelLayout::kGreyAlpha>(from, width, target, to);
    case PixelLayout::kRgb:
      return convert<PixelLayout::kRgb>(from, width, target, to);
    case PixelLayout::kRgba:
      return convert<PixelLayout::kRgba>(from, width, target, to);
    case PixelLayout::kInvertedCmyk:
      return convert<PixelLayout::kInvertedCmyk>(from, width, target, to);
  }
}

Error broken_picture(std::string message) {
  return content_error("XG0412", std::move(message), "replace the file, or raise `max_bad`");
}

Status check_picture_size(std::string_view format, int64_t width, int64_t height) {
  if (width < 1 || height < 1) {
    return broken_picture(fmt::format("a broken {}: a picture of {} x {} pixels", format, width, height));
  }
  if (width > kMostPixels / height) {
    return broken_picture(fmt::format("a broken {}: {} x {} pixels are too many", format, width, height));
  }
  return {};
}

}  // namespace xrun::runtime
