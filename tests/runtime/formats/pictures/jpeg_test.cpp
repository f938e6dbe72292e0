// Parts of pictures, and pictures at a fraction of their size, against the whole picture: pictures that the test makes,
// and those of tests/pictures.
#include "runtime/formats/pictures/jpeg.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/formats/pictures/jpeg_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;

std::span<const std::byte> bytes_of(const std::string& file) { return std::as_bytes(std::span(file)); }

// Draws a rectangle of whole pixels in a picture of this size.
PictureBox draw_box(const RandomStream& stream, uint64_t at, int64_t height, int64_t width) {
  const auto draw = [&](uint64_t i, int64_t below) {
    return static_cast<int64_t>(stream.below(at + i, static_cast<uint64_t>(below)));
  };
  const int64_t h = 1 + draw(0, height);
  const int64_t w = 1 + draw(1, width);
  return {static_cast<double>(draw(2, height - h + 1)), static_cast<double>(draw(3, width - w + 1)),
          static_cast<double>(h), static_cast<double>(w)};
}

// Checks that random parts of the picture have the pixels of the whole picture. Returns the number of parts.
int expect_parts(const std::string& file, const std::string& name, uint64_t seed) {
  const auto header = read_picture_header(bytes_of(file));
  EXPECT_TRUE(header.ok()) << name;
  int parts = 0;
  for (const int channels : {1, 3}) {
    std::vector<uint8_t> whole, pixels;
    const auto size = decode_picture(bytes_of(file), {.channels = channels}, whole);
    EXPECT_TRUE(size.ok()) << name;
    const RandomStream stream(seed, 3);
    for (uint64_t i = 0; i < 8 && size.ok(); ++i, ++parts) {
      const PictureBox box = draw_box(stream, 4 * i, size->height, size->width);
      const auto part = decode_picture_part(bytes_of(file), *header, {.channels = channels}, {.box = box}, pixels);
      EXPECT_TRUE(part.ok()) << name << ": " << part.error().message;
      if (!part.ok()) {
        continue;
      }
      EXPECT_EQ(part->box.height, box.height);
      EXPECT_EQ(part->box.width, box.width);
      for (int y = 0; y < box.height; ++y) {
        const auto at = [&](double top, double left, int width) {
          return (static_cast<size_t>(top + y) * static_cast<size_t>(width) + static_cast<size_t>(left)) *
                 static_cast<size_t>(channels);
        };
        EXPECT_EQ(0, std::memcmp(whole.data() + at(box.top, box.left, size->width),
                                 pixels.data() + at(part->box.top, part->box.left, part->size.width),
                                 static_cast<size_t>(box.width) * static_cast<size_t>(channels)))
            << name << ", " << channels << " channels: row " << y << " of " << box.height << " x " << box.width
            << " at " << box.top << ", " << box.left;
      }
    }
  }
  return parts;
}

TEST(JpegParts, APartHasThePixelsOfTheWholePicture) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    const std::string file = jpeg_file(draw_jpeg_kind(seed, 120), seed);
    EXPECT_EQ(expect_parts(file, "seed " + std::to_string(seed), seed), 16);
    if (HasFailure()) {
      return;
    }
  }
}

TEST(JpegParts, PicturesOfOtherToolsAndFormatsHaveTheirPixelsInParts) {
  int parts = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(XRUN_SOURCE_DIR) / "tests/pictures")) {
    if (has_picture_extension(entry.path().string())) {
      std::ifstream in(entry.path(), std::ios::binary);
      parts += expect_parts({std::istreambuf_iterator<char>(in), {}}, entry.path().filename(), 1);
    }
  }
  EXPECT_GE(parts, 60 * 16);
}

// A draw of a crop must not decide whether a file is broken, so damage is found wherever it is.
TEST(JpegParts, DamageIsFoundInEachPartAsInTheWholePicture) {
  int broken = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const JpegKind kind = draw_jpeg_kind(seed, 80);
    const std::string good = jpeg_file(kind, seed);
    const RandomStream stream(seed, 5);
    for (uint64_t i = 0; i < 24; ++i) {
      std::string file = good;
      const auto at = static_cast<size_t>(stream.below(8 * i, file.size()));
      if (i % 3 == 0) {
        file.resize(at);
      } else {
        file[at] = static_cast<char>(file[at] ^ (1 << (i % 8)));
      }
      const auto header = read_picture_header(bytes_of(file));
      if (!header.ok() || header->height * header->width > 1'000'000) {
        continue;
      }
      std::vector<uint8_t> pixels;
      const auto whole = decode_picture(bytes_of(file), {.channels = 3}, pixels);
      broken += whole.ok() ? 0 : 1;
      const PictureBox box = draw_box(stream, 8 * i + 1, header->height, header->width);
      for (const int64_t least : {0, 1}) {  // at the full size, and at an eighth of it
        const auto part = decode_picture_part(bytes_of(file), *header, {.channels = 3},
                                              {.box = box, .least_height = least, .least_width = least}, pixels);
        ASSERT_EQ(part.ok(), whole.ok()) << "seed " << seed << ", damage " << i << ", least " << least << ": "
                                         << (part.ok() ? whole : Result<PictureSize>(part.error())).error().message;
        if (!part.ok()) {
          EXPECT_EQ(part.error().message, whole.error().message);
        }
      }
    }
  }
  EXPECT_GT(broken, 100);
}

// The mean of grey pixels in a box.
double mean_in(const std::vector<uint8_t>& pixels, int width, const PictureBox& box) {
  double sum = 0;
  for (int y = 0; y < box.height; ++y) {
    for (int x = 0; x < box.width; ++x) {
      sum += pixels[static_cast<size_t>(box.top + y) * static_cast<size_t>(width) + static_cast<size_t>(box.left + x)];
    }
  }
  return sum / (box.height * box.width);
}

// In a picture at 1/2, 1/4 or 1/8, a pixel is about the mean of the pixels that it covers. A turned picture would have
// them elsewhere.
TEST(JpegParts, APixelAtAFractionOfTheSizeIsTheMeanOfItsPixels) {
  int scaled = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    JpegKind kind = draw_jpeg_kind(seed, 100);
    kind.height += 16;
    kind.width += 16;
    kind.quality = 95;
    const std::string file = jpeg_file(kind, seed);
    const auto header = read_picture_header(bytes_of(file));
    ASSERT_TRUE(header.ok());
    std::vector<uint8_t> whole, pixels;
    const auto size = decode_picture(bytes_of(file), {.channels = 1}, whole);
    ASSERT_TRUE(size.ok());
    const PictureBox box = draw_box(RandomStream(seed, 9), 0, size->height, size->width);
    const auto least = [&](double side) { return std::max<int64_t>(1, static_cast<int64_t>(side) / (2 << seed % 3)); };
    const auto part =
        decode_picture_part(bytes_of(file), *header, {.channels = 1},
                            {.box = box, .least_height = least(box.height), .least_width = least(box.width)}, pixels);
    ASSERT_TRUE(part.ok()) << part.error().message;
    EXPECT_GE(part->box.height, static_cast<double>(least(box.height)));
    EXPECT_GE(part->box.width, static_cast<double>(least(box.width)));
    const int step = static_cast<int>(std::lround(box.height / part->box.height));
    EXPECT_EQ(box.width / step, part->box.width);
    scaled += step > 1 ? 1 : 0;
    double differences = 0;
    int count = 0;
    for (int y = 0; y < part->size.height; ++y) {
      for (int x = 0; x < part->size.width; ++x) {
        const PictureBox covered{(y - part->box.top) * step + box.top, (x - part->box.left) * step + box.left,
                                 static_cast<double>(step), static_cast<double>(step)};
        if (covered.top < 0 || covered.left < 0 || covered.top + step > size->height ||
            covered.left + step > size->width) {
          continue;  // a pixel of the last block, which lies partly outside
        }
        differences +=
            std::fabs(mean_in(whole, size->width, covered) -
                      pixels[static_cast<size_t>(y) * static_cast<size_t>(part->size.width) + static_cast<size_t>(x)]);
        ++count;
      }
    }
    ASSERT_GT(count, 0);
    // The grey of CMYK is a product of inks, and the mean of products is not the product of means.
    const double most = kind.components == 4 ? 4 : 1.5;
    EXPECT_LT(differences / count, step == 1 ? 1e-9 : most);
  }
  EXPECT_GT(scaled, 30);
}

TEST(JpegParts, ASizeIsHalvedOnlyAsLongAsThePartKeepsItsLeastSize) {
  const std::string file = jpeg_file({.height = 160, .width = 96}, 1);
  const auto header = read_picture_header(bytes_of(file));
  std::vector<uint8_t> pixels;
  const auto height_of = [&](int64_t least_height, int64_t least_width) {
    const auto part = decode_picture_part(
        bytes_of(file), *header, {},
        {.box = {.height = 160, .width = 96}, .least_height = least_height, .least_width = least_width}, pixels);
    return part.ok() ? part->size.height : 0;
  };
  EXPECT_EQ(height_of(0, 0), 160);  // no approximation
  EXPECT_EQ(height_of(81, 1), 160);
  EXPECT_EQ(height_of(80, 48), 80);
  EXPECT_EQ(height_of(80, 49), 160);
  EXPECT_EQ(height_of(40, 24), 40);
  EXPECT_EQ(height_of(20, 12), 20);
  EXPECT_EQ(height_of(1, 1), 20);  // the least that the format permits
}

// Colours with half of the samples in each row alone keep the least size as well.
TEST(JpegParts, ColoursKeepTheLeastSizeAsPixelsDo) {
  std::vector<uint8_t> pixels;
  const auto height_of = [&](int samples_down, int samples_right) {
    const std::string file =
        jpeg_file({.height = 160, .width = 96, .samples_down = samples_down, .samples_right = samples_right}, 1);
    const auto part =
        decode_picture_part(bytes_of(file), *read_picture_header(bytes_of(file)), {},
                            {.box = {.height = 160, .width = 96}, .least_height = 20, .least_width = 12}, pixels);
    return part.ok() ? part->size.height : 0;
  };
  EXPECT_EQ(height_of(1, 1), 20);
  EXPECT_EQ(height_of(2, 2), 20);
  EXPECT_EQ(height_of(1, 2), 40);
  EXPECT_EQ(height_of(2, 1), 40);
  EXPECT_EQ(height_of(1, 4), 80);
}

}  // namespace
}  // namespace xrun::runtime
