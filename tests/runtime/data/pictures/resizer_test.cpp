// Resizing against Pillow's pixels (tests/pictures/make_resized.py) and against the definition of the filters in f64.
#include "runtime/data/pictures/resizer.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

#include "graph/base/random.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::runtime {
namespace {

const std::filesystem::path kPictures = std::filesystem::path(XRUN_SOURCE_DIR) / "tests/pictures";

PictureBox all_of(int height, int width) {
  return {.height = static_cast<double>(height), .width = static_cast<double>(width)};
}

Picture resized(const std::vector<uint8_t>& bytes, int width, int channels, const PictureBox& box,
                const ResizeMethod& method, int to_height, int to_width) {
  Picture to;
  to.reshape(channels, to_height, to_width);
  Resizer().resize(bytes.data(), width, box, method, to);
  return to;
}

// Returns the filter's weight of source pixel `pixel` for a result with its centre at `centre`, before the weights are
// divided by their sum.
double weight_of(const ResizeMethod& method, double pixel, double centre, double ratio) {
  const double scale = method.antialias ? std::max(1.0, ratio) : 1;
  const double d = std::fabs((pixel + 0.5 - centre) / scale);
  if (method.filter == ResizeFilter::kBilinear) {
    return std::max(0.0, 1 - d);
  }
  return d < 1 ? 1.5 * d * d * d - 2.5 * d * d + 1 : d < 2 ? -0.5 * d * d * d + 2.5 * d * d - 4 * d + 2 : 0;
}

// Resizes one side of a row of f64 numbers by the definition.
std::vector<double> along(const std::vector<double>& from, double begin, double length, int to,
                          const ResizeMethod& method) {
  std::vector<double> result;
  for (int i = 0; i < to; ++i) {
    const double centre = begin + (i + 0.5) * length / to;
    double sum = 0;
    double weights = 0;
    for (int p = static_cast<int>(begin); p < std::ceil(begin + length); ++p) {
      const double w = weight_of(method, p, centre, length / to);
      sum += w * from[static_cast<size_t>(p)];
      weights += w;
    }
    result.push_back(method.filter == ResizeFilter::kBicubic && method.is_bytes ? std::clamp(sum / weights, 0.0, 255.0)
                                                                                : sum / weights);
  }
  return result;
}

std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  const RandomStream stream(seed, 0);
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<uint8_t>(stream.bits(i));
  }
  return bytes;
}

TEST(Resizer, PixelsAreThoseOfPillowWithinOne) {
  std::ifstream in(kPictures / "resized.txt");
  std::string name, filter, hex;
  int channels = 0, height = 0, width = 0, rows = 0;
  while (in >> name >> channels >> filter >> height >> width >> hex) {
    std::ifstream picture(kPictures / name, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(picture), {}};
    std::vector<uint8_t> pixels;
    const auto size = decode_picture(std::as_bytes(std::span(file)), {.channels = channels}, pixels);
    ASSERT_TRUE(size.ok()) << name;
    const ResizeMethod method{.filter = filter == "bicubic" ? ResizeFilter::kBicubic : ResizeFilter::kBilinear};
    const Picture to = resized(pixels, size->width, channels, all_of(size->height, size->width), method, height, width);
    for (int i = 0; i < channels * height * width; ++i) {
      const int wanted = std::stoi(hex.substr(static_cast<size_t>(2 * i), 2), nullptr, 16);
      const float got = to.row(i % channels, i / channels / width)[i / channels % width];
      ASSERT_LE(std::fabs(std::round(got) - static_cast<float>(wanted)), 1)
          << name << " " << filter << " " << height << " x " << width << ", number " << i << ": " << got;
    }
    ++rows;
  }
  EXPECT_EQ(rows, 42);
}

TEST(Resizer, FiltersFollowTheirDefinitionOnAnyBox) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomStream stream(seed, 1);
    const auto draw = [&](uint64_t at, uint64_t most) { return 1 + static_cast<int>(stream.below(at, most)); };
    const int height = draw(0, 40), width = draw(1, 40), to_height = draw(2, 30), to_width = draw(3, 30);
    const int channels = seed % 2 == 0 ? 3 : 1;
    const ResizeMethod method{.filter = seed % 4 < 2 ? ResizeFilter::kBilinear : ResizeFilter::kBicubic,
                              .antialias = seed % 3 != 0};
    // Sides at eighths of pixels, as a JPEG at a fraction of its size has them.
    PictureBox box = all_of(height, width);
    if (seed % 5 > 0) {
      box.top = static_cast<double>(stream.below(4, static_cast<uint64_t>(height) * 4)) / 8;
      box.left = static_cast<double>(stream.below(5, static_cast<uint64_t>(width) * 4)) / 8;
      box.height = (height - box.top) * draw(6, 8) / 8;
      box.width = (width - box.left) * draw(7, 8) / 8;
    }
    const std::vector<uint8_t> bytes = random_bytes(static_cast<size_t>(height * width * channels), seed);
    const Picture to = resized(bytes, width, channels, box, method, to_height, to_width);
    for (int c = 0; c < channels; ++c) {
      std::vector<std::vector<double>> columns;  // the picture, resized along its rows
      for (int y = 0; y < height; ++y) {
        std::vector<double> row;
        for (int x = 0; x < width; ++x) {
          row.push_back(bytes[static_cast<size_t>((y * width + x) * channels + c)]);
        }
        columns.push_back(along(row, box.left, box.width, to_width, method));
      }
      for (int x = 0; x < to_width; ++x) {
        std::vector<double> column;
        for (const auto& row : columns) {
          column.push_back(row[static_cast<size_t>(x)]);
        }
        const std::vector<double> wanted = along(column, box.top, box.height, to_height, method);
        for (int y = 0; y < to_height; ++y) {
          ASSERT_NEAR(to.row(c, y)[x], wanted[static_cast<size_t>(y)], 2e-3) << c << ", " << y << ", " << x;
        }
      }
    }
  }
}

TEST(Resizer, BytesAndFloatsGiveTheSameBits) {
  for (const auto& [height, width] : {std::pair{90, 131}, {7, 300}, {300, 7}, {1, 1}, {33, 64}}) {
    for (const auto& [to_height, to_width] : {std::pair(32, 32), {10, 13}, {50, 64}, {1, 100}}) {
      for (const ResizeFilter filter : {ResizeFilter::kBilinear, ResizeFilter::kBicubic}) {
        for (const int channels : {1, 3}) {
          const std::vector<uint8_t> bytes = random_bytes(static_cast<size_t>(height * width * channels), 5);
          Picture from, floats;
          from.reshape(channels, height, width);
          load_interleaved(bytes.data(), from);
          floats.reshape(channels, to_height, to_width);
          Resizer().resize(from, {.filter = filter}, floats);
          const Picture to =
              resized(bytes, width, channels, all_of(height, width), {.filter = filter}, to_height, to_width);
          for (int c = 0; c < channels; ++c) {
            for (int y = 0; y < to_height; ++y) {
              ASSERT_TRUE(std::equal(to.row(c, y), to.row(c, y) + to_width, floats.row(c, y)))
                  << height << " x " << width << " to " << to_height << " x " << to_width;
            }
          }
        }
      }
    }
  }
}

TEST(Resizer, OvershootOfACubicIsCutOffOnlyInBytes) {
  Picture from;
  from.reshape(1, 1, 8);
  for (int x = 0; x < 8; ++x) {
    from.row(0, 0)[x] = x < 4 ? 0.0f : 255.0f;
  }
  Picture to;
  to.reshape(1, 1, 32);
  const auto range = [&] { return std::minmax_element(to.row(0, 0), to.row(0, 0) + 32); };
  Resizer().resize(from, {.filter = ResizeFilter::kBicubic, .is_bytes = true}, to);
  EXPECT_EQ(*range().first, 0);
  EXPECT_EQ(*range().second, 255);
  Resizer().resize(from, {.filter = ResizeFilter::kBicubic, .is_bytes = false}, to);
  EXPECT_LT(*range().first, -10);
  EXPECT_GT(*range().second, 265);
}

}  // namespace
}  // namespace xrun::runtime
