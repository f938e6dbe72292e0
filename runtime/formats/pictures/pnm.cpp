// The format: "P" and the kind; width, height and the largest value as decimal numbers, with blanks and comments (from
// # to the end of the line) between them; one blank; then the rows from the top. In P2 and P3, values are decimal
// numbers. In the other kinds they are bytes, or big-endian pairs of bytes if the largest value is above 255.
// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/pnm.h"

#include <cctype>
#include <fmt/format.h>

namespace xrun::runtime {
namespace {

Error broken_pnm(std::string_view why) { return broken_picture(fmt::format("a broken PGM or PPM: {}", why)); }

struct Pnm {
  bool text = false;
  PixelLayout layout = PixelLayout::kGrey;
  int64_t width = 0;
  int64_t height = 0;
  int64_t largest = 0;  // the largest value of a channel, from the header
  size_t pixels = 0;    // offset of the pixels in the file

  int64_t row_values() const { return width * bytes_of(layout); }
};

char char_at(std::span<const std::byte> file, size_t at) {
  return at < file.size() ? static_cast<char>(file[at]) : '\0';
}

// Reads the first decimal number at or after `at`, and moves `at` to the end of the number. Returns -1 if there is no
// number, or if it is above 2^30.
int64_t next_number(std::span<const std::byte> file, size_t& at) {
  constexpr int64_t kMost = int64_t{1} << 30;
  for (;; ++at) {
    if (char_at(file, at) == '#') {
      while (at < file.size() && char_at(file, at) != '\n') {
        ++at;
      }
    } else if (at >= file.size() || std::isspace(static_cast<unsigned char>(char_at(file, at))) == 0) {
      break;
    }
  }
  int64_t value = -1;
  for (; at < file.size() && char_at(file, at) >= '0' && char_at(file, at) <= '9'; ++at) {
    value = (value < 0 ? 0 : value * 10) + (char_at(file, at) - '0');
    if (value > kMost) {
      return -1;
    }
  }
  return value;
}

Result<Pnm> parse(std::span<const std::byte> file) {
  const char kind = char_at(file, 1);
  Pnm pnm{.text = kind == '2' || kind == '3',
          .layout = kind == '2' || kind == '5' ? PixelLayout::kGrey : PixelLayout::kRgb};
  size_t at = 2;
  pnm.width = next_number(file, at);
  pnm.height = next_number(file, at);
  pnm.largest = next_number(file, at);
  XRUN_TRY(check_picture_size("PGM or PPM", pnm.width, pnm.height));
  if (pnm.largest < 1 || pnm.largest > 65'535) {
    return broken_pnm("its largest value is not between 1 and 65535");
  }
  pnm.pixels = at + 1;
  return pnm;
}

}  // namespace

Result<PictureHeader> read_pnm_header(std::span<const std::byte> file) {
  XRUN_ASSIGN(const Pnm pnm, parse(file));
  return PictureHeader{.height = pnm.height, .width = pnm.width};
}

Result<PictureHeader> decode_pnm(std::span<const std::byte> file, const PixelTarget& target,
                                 std::vector<uint8_t>& out) {
  XRUN_ASSIGN(const Pnm pnm, parse(file));
  const size_t width = pnm.largest > 255 && !pnm.text ? 2 : 1;  // bytes of a value; in text at least one digit
  const auto row_values = static_cast<size_t>(pnm.row_values());
  if (pnm.pixels > file.size() || row_values * static_cast<size_t>(pnm.height) * width > file.size() - pnm.pixels) {
    return broken_pnm("cut short");
  }
  const size_t row = static_cast<size_t>(pnm.width) * static_cast<size_t>(target.channels);
  out.resize(row * static_cast<size_t>(pnm.height));
  std::vector<uint8_t> stored(row_values);
  size_t at = pnm.pixels;
  for (size_t y = 0; y < static_cast<size_t>(pnm.height); ++y) {
    for (uint8_t& byte : stored) {
      int64_t value = 0;
      if (pnm.text) {
        value = next_number(file, at);
      } else {
        for (size_t i = 0; i < width; ++i) {
          value = value << 8 | std::to_integer<int64_t>(file[at++]);
        }
      }
      if (value < 0 || value > pnm.largest) {
        return broken_pnm(value < 0 ? "cut short, or not a number" : "a value above the largest");
      }
      byte = static_cast<uint8_t>((value * 255 + pnm.largest / 2) / pnm.largest);
    }
    convert_row(pnm.layout, stored.data(), static_cast<size_t>(pnm.width), target, out.data() + row * y);
  }
  return PictureHeader{.height = pnm.height, .width = pnm.width};
}

}  // namespace xrun::runtime
