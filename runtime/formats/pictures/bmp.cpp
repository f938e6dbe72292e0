// The format, little-endian:
//   file header  "BM", u32 size, u16, u16, u32 offset of the pixels
//   header       u32 size of this header, width and height (u16 in a header of 12 bytes, else i32), u16 planes,
//                u16 bits, [u32 compression, u32 x 3, u32 colours, u32]
//   masks        [u32 x 3 or 4]
//   palette      blue green red [0] for each colour
//   rows         padded to 4 bytes, from the bottom up unless the height is negative
// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/bmp.h"

#include <algorithm>
#include <bit>
#include <fmt/format.h>

namespace xrun::runtime {
namespace {

constexpr size_t kFileHeader = 14;
constexpr size_t kOldHeader = 12;
constexpr size_t kMasks = kFileHeader + 40;  // offset in the file: after a header of 40 bytes, inside longer ones
constexpr uint32_t kPlain = 0;
constexpr uint32_t kBitFields = 3;

struct Bmp {
  int64_t width = 0;
  int64_t height = 0;
  bool top_down = false;
  uint32_t bits = 0;
  std::array<uint32_t, 4> masks{};  // masks of red, green, blue, alpha; for 16 and 32 bits
  std::vector<std::array<uint8_t, 3>> palette;
  size_t pixels = 0;  // offset of the pixels in the file
  size_t row = 0;     // bytes of a row in the file
};

Error broken_bmp(std::string_view why) { return broken_picture(fmt::format("a broken BMP: {}", why)); }

uint32_t number_at(std::span<const std::byte> file, size_t at, size_t width) {
  uint32_t value = 0;
  for (size_t i = 0; i < width && at + i < file.size(); ++i) {
    value |= std::to_integer<uint32_t>(file[at + i]) << (8 * i);
  }
  return value;
}

// Reads the masks of a file of 16 or 32 bits a pixel.
Status read_masks(std::span<const std::byte> file, uint32_t header, uint32_t compression, Bmp& bmp) {
  if (compression == kPlain) {
    bmp.masks =
        bmp.bits == 16 ? std::array<uint32_t, 4>{0x7C00, 0x3E0, 0x1F} : std::array<uint32_t, 4>{0xFF0000, 0xFF00, 0xFF};
    return {};
  }
  const size_t count = header >= 56 ? 4 : 3;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t mask = number_at(file, kMasks + 4 * i, 4);
    const uint32_t ones = mask == 0 ? 0 : mask >> std::countr_zero(mask);
    if ((ones & (ones + 1)) != 0 || (mask == 0 && i < 3)) {
      return broken_bmp("a mask without adjacent bits");
    }
    bmp.masks[i] = mask;
  }
  return {};
}

void read_palette(std::span<const std::byte> file, uint32_t header, Bmp& bmp) {
  const size_t entry = header == kOldHeader ? 3 : 4;
  const uint32_t named = header == kOldHeader ? 0 : number_at(file, kFileHeader + 32, 4);
  const size_t count = std::min<size_t>(named == 0 ? 256 : named, size_t{1} << bmp.bits);
  bmp.palette.resize(size_t{1} << bmp.bits);  // a colour that the palette in the file lacks is black
  for (size_t i = 0; i < count; ++i) {
    for (size_t c = 0; c < 3; ++c) {
      bmp.palette[i][c] = static_cast<uint8_t>(number_at(file, kFileHeader + header + entry * i + 2 - c, 1));
    }
  }
}

Result<Bmp> parse(std::span<const std::byte> file) {
  const uint32_t header = number_at(file, kFileHeader, 4);
  if (file.size() < kFileHeader + header || header < kOldHeader || (header > kOldHeader && header < 40)) {
    return broken_bmp("cut short, or a header that no program writes");
  }
  Bmp bmp;
  const bool old = header == kOldHeader;
  const auto field = [&](size_t at, size_t width) { return int64_t{number_at(file, kFileHeader + at, width)}; };
  const int64_t height = old ? field(6, 2) : static_cast<int32_t>(field(8, 4));
  bmp.width = old ? field(4, 2) : static_cast<int32_t>(field(4, 4));
  bmp.height = height < 0 ? -height : height;
  bmp.top_down = height < 0;
  XRUN_TRY(check_picture_size("BMP", bmp.width, bmp.height));
  bmp.bits = number_at(file, kFileHeader + (old ? 10 : 14), 2);
  const uint32_t compression = old ? kPlain : number_at(file, kFileHeader + 16, 4);
  const bool masked = bmp.bits == 16 || bmp.bits == 32;
  if (compression != kPlain && !(masked && compression == kBitFields)) {
    return broken_bmp("it is compressed; save it without run lengths, or as PNG");
  }
  if (masked) {
    XRUN_TRY(read_masks(file, header, compression, bmp));
  } else if (bmp.bits == 1 || bmp.bits == 4 || bmp.bits == 8) {
    read_palette(file, header, bmp);
  } else if (bmp.bits != 24) {
    return broken_bmp(fmt::format("{} bits a pixel", bmp.bits));
  }
  bmp.pixels = number_at(file, 10, 4);
  bmp.row = (static_cast<size_t>(bmp.width) * bmp.bits + 31) / 32 * 4;
  return bmp;
}

// Returns the value of the bits under a mask, scaled to 0..255.
uint8_t masked_byte(uint32_t pixel, uint32_t mask) {
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift;
  return static_cast<uint8_t>(((pixel & mask) >> shift) * uint64_t{255} / most);
}

// Unpacks one row as RGB, or as RGBA if the file has a mask for alpha.
void unpack(const Bmp& bmp, std::span<const std::byte> from, std::vector<uint8_t>& row) {
  uint8_t* to = row.data();
  for (size_t x = 0; x < static_cast<size_t>(bmp.width); ++x) {
    if (bmp.bits == 24) {
      for (size_t c = 0; c < 3; ++c) {
        *to++ = std::to_integer<uint8_t>(from[3 * x + 2 - c]);
      }
    } else if (bmp.bits <= 8) {
      const size_t bit = x * bmp.bits;
      const uint32_t shift = 8 - bmp.bits - static_cast<uint32_t>(bit % 8);
      const uint32_t index = std::to_integer<uint32_t>(from[bit / 8]) >> shift & ((1U << bmp.bits) - 1);
      to = std::ranges::copy(bmp.palette[index], to).out;
    } else {
      const uint32_t pixel = number_at(from, x * bmp.bits / 8, bmp.bits / 8);
      for (size_t c = 0; c < (bmp.masks[3] != 0 ? 4 : 3); ++c) {
        *to++ = masked_byte(pixel, bmp.masks[c]);
      }
    }
  }
}

}  // namespace

Result<PictureHeader> read_bmp_header(std::span<const std::byte> file) {
  XRUN_ASSIGN(const Bmp bmp, parse(file));
  return PictureHeader{.height = bmp.height, .width = bmp.width};
}

Result<PictureHeader> decode_bmp(std::span<const std::byte> file, const PixelTarget& target,
                                 std::vector<uint8_t>& out) {
  XRUN_ASSIGN(const Bmp bmp, parse(file));
  const auto height = static_cast<size_t>(bmp.height);
  if (bmp.pixels > file.size() || bmp.row * height > file.size() - bmp.pixels) {
    return broken_bmp("cut short");
  }
  const PixelLayout layout = bmp.masks[3] != 0 ? PixelLayout::kRgba : PixelLayout::kRgb;
  std::vector<uint8_t> stored(static_cast<size_t>(bmp.width) * static_cast<size_t>(bytes_of(layout)));
  const size_t row = static_cast<size_t>(bmp.width) * static_cast<size_t>(target.channels);
  out.resize(row * height);
  for (size_t y = 0; y < height; ++y) {
    unpack(bmp, file.subspan(bmp.pixels + bmp.row * (bmp.top_down ? y : height - 1 - y), bmp.row), stored);
    convert_row(layout, stored.data(), static_cast<size_t>(bmp.width), target, out.data() + row * y);
  }
  return PictureHeader{.height = bmp.height, .width = bmp.width};
}

}  // namespace xrun::runtime
