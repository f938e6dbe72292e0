// An animation is read as its first picture. The animations are made here from the WebP files of tests/pictures, whose
// pixels are known.
#include <fstream>
#include <gmock/gmock.h>
#include <iterator>

#include "runtime/formats/pictures/decode.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using ::testing::HasSubstr;

std::string picture(const std::string& name) {
  std::ifstream in(std::string(XRUN_SOURCE_DIR) + "/tests/pictures/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string little(uint32_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

std::string chunk(const std::string& name, const std::string& data) {
  return name + little(static_cast<uint32_t>(data.size()), 4) + data + (data.size() % 2 == 1 ? std::string(1, 0) : "");
}

// Returns the chunks of a single picture's file that hold its pixels.
std::string pixel_chunks(const std::string& file) {
  std::string chunks;
  for (size_t at = 12; at + 8 <= file.size();) {
    const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(file[at + i])); };
    const size_t size = byte(4) | byte(5) << 8 | byte(6) << 16 | byte(7) << 24;
    const std::string name = file.substr(at, 4);
    const size_t whole = 8 + size + size % 2;
    if (name == "ALPH" || name == "VP8 " || name == "VP8L") {
      chunks += file.substr(at, whole);
    }
    at += whole;
  }
  return chunks;
}

// Returns a frame with a picture of 22 x 14 at even coordinates of the canvas.
std::string frame(const std::string& name, uint32_t left, uint32_t top) {
  return chunk("ANMF", little(left / 2, 3) + little(top / 2, 3) + little(21, 3) + little(13, 3) + little(100, 3) +
                           little(0, 1) + pixel_chunks(picture(name)));
}

std::string animation(uint32_t width, uint32_t height, const std::string& frames) {
  const std::string chunks = chunk("VP8X", little(0x12, 4) + little(width - 1, 3) + little(height - 1, 3)) +
                             chunk("ANIM", little(0xFFFFFFFF, 4) + little(0, 2)) + frames;
  return "RIFF" + little(static_cast<uint32_t>(4 + chunks.size()), 4) + "WEBP" + chunks;
}

Result<std::vector<uint8_t>> pixels_of(const std::string& file, int channels, uint8_t background = 0) {
  std::vector<uint8_t> pixels;
  XRUN_ASSIGN([[maybe_unused]] const PictureSize size,
              decode_picture(std::as_bytes(std::span(file)),
                             {.channels = channels, .background = {background, background, background}}, pixels));
  return pixels;
}

TEST(Animations, AreReadAsTheirFirstPicture) {
  for (const char* name : {"lossy.webp", "lossless.webp", "alpha_lossy.webp", "alpha_lossless.webp"}) {
    const std::string file = animation(22, 14, frame(name, 0, 0) + frame("grey.webp", 0, 0));
    const auto header = read_picture_header(std::as_bytes(std::span(file))).value();
    EXPECT_EQ(header.width, 22) << name;
    EXPECT_EQ(header.height, 14) << name;
    for (const int channels : {1, 3}) {
      for (const uint8_t background : {uint8_t{0}, uint8_t{255}}) {
        EXPECT_EQ(pixels_of(file, channels, background).value(), pixels_of(picture(name), channels, background).value())
            << name;
      }
    }
  }
}

TEST(Animations, HaveTheBackgroundOutsideOfTheirFirstPicture) {
  const auto whole = pixels_of(animation(30, 20, frame("lossy.webp", 6, 4)), 3, 200).value();
  const auto part = pixels_of(picture("lossy.webp"), 3).value();
  ASSERT_EQ(whole.size(), 30u * 20 * 3);
  for (size_t y = 0; y < 20; ++y) {
    for (size_t x = 0; x < 30; ++x) {
      const bool inside = x >= 6 && x < 28 && y >= 4 && y < 18;
      for (size_t c = 0; c < 3; ++c) {
        ASSERT_EQ(whole[(y * 30 + x) * 3 + c], inside ? part[((y - 4) * 22 + x - 6) * 3 + c] : 200) << x << ' ' << y;
      }
    }
  }
}

TEST(Animations, AreRefusedIfBroken) {
  const std::string good = animation(22, 14, frame("lossy.webp", 0, 0));
  // A file that is cut off anywhere is rejected, or gives no pixels of another size. It is never read beyond its end.
  for (size_t size = 12; size < good.size(); size += 7) {
    const auto cut = pixels_of(good.substr(0, size), 3);
    EXPECT_FALSE(cut.ok()) << size;
  }
  const auto message = [](const std::string& file) { return pixels_of(file, 3).error().message; };
  EXPECT_THAT(message(animation(22, 14, frame("lossy.webp", 2, 0))), HasSubstr("exceeds its canvas"));
  EXPECT_THAT(message(animation(22, 14, "")), HasSubstr("cut short"));
  EXPECT_THAT(message(animation(22, 14, chunk("ANMF", "short"))), HasSubstr("cut short"));
  std::string other = frame("lossy.webp", 0, 0);
  other[8 + 6] = 20;  // the frame has another width than the pixels
  EXPECT_THAT(message(animation(22, 14, other)), HasSubstr("two sizes"));
}

}  // namespace
}  // namespace xrun::runtime
