#include "runtime/formats/exif.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <zlib.h>

namespace xrun::runtime {
namespace {

using View = std::span<const std::byte>;

bool starts_with(View bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// The number of `width` bytes at `at`, without the bytes beyond the end.
uint32_t number_at(View bytes, size_t at, size_t width, bool big_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < width && at + i < bytes.size(); ++i) {
    const auto byte = std::to_integer<uint32_t>(bytes[at + i]);
    value = big_endian ? value << 8 | byte : value | byte << (8 * i);
  }
  return value;
}

// Returns at most `length` bytes from `at` on.
View part(View bytes, size_t at, size_t length) {
  return at >= bytes.size() ? View() : bytes.subspan(at, std::min(length, bytes.size() - at));
}

// SOI, then segments: FF, marker, u16 length that includes itself. The picture data begins at the marker SOS (DA).
View block_of_jpeg(View file) {
  for (size_t at = 2; at + 4 <= file.size();) {
    if (file[at] != std::byte{0xFF}) {
      return {};
    }
    const auto marker = std::to_integer<int>(file[at + 1]);
    if (marker == 0xFF) {  // fill byte
      ++at;
      continue;
    }
    const size_t length = number_at(file, at + 2, 2, true);
    if (marker == 0xDA || length < 2) {
      return {};
    }
    const View segment = part(file, at + 4, length - 2);
    constexpr std::string_view kExif("Exif\0\0", 6);
    if (marker == 0xE1 && starts_with(segment, kExif)) {
      return segment.subspan(kExif.size());
    }
    at += 2 + length;
  }
  return {};
}

// Signature of 8 bytes, then chunks: u32 length, name, content, u32 checksum of name and content.
View block_of_png(View file) {
  for (size_t at = 8; at + 12 <= file.size();) {
    const size_t length = number_at(file, at, 4, true);
    const View chunk = part(file, at + 4, 4 + length);
    if (starts_with(chunk, "eXIf")) {
      const auto sum = ::crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size()));
      return sum == number_at(file, at + 8 + length, 4, true) ? chunk.subspan(4) : View();
    }
    at += 12 + length;
  }
  return {};
}

// "RIFF", u32 size, "WEBP", then chunks: name, u32 length, content, padded to an even length.
View block_of_webp(View file) {
  for (size_t at = 12; at + 8 <= file.size();) {
    const size_t length = number_at(file, at + 4, 4, false);
    if (starts_with(file.subspan(at), "EXIF")) {
      const View content = part(file, at + 8, length);
      constexpr std::string_view kPrefix("Exif\0\0", 6);  // a JPEG begins like this; some programs also write it here
      return starts_with(content, kPrefix) ? content.subspan(kPrefix.size()) : content;
    }
    at += 8 + length + length % 2;
  }
  return {};
}

View block_of(View file) {
  if (starts_with(file, "\xFF\xD8\xFF")) {
    return block_of_jpeg(file);
  }
  if (starts_with(file, "\x89PNG")) {
    return block_of_png(file);
  }
  return starts_with(file, "RIFF") && starts_with(part(file, 8, 4), "WEBP") ? block_of_webp(file) : View();
}

}  // namespace

// TIFF: "II" or "MM", 42, u32 offset of a directory: u16 count, then entries of 12 bytes: tag, type, count, value.
int exif_orientation(std::span<const std::byte> file) {
  constexpr uint32_t kOrientation = 0x0112;
  constexpr uint32_t kShort = 3;
  const View block = block_of(file);
  const bool big_endian = starts_with(block, "MM");
  if (!big_endian && !starts_with(block, "II")) {
    return 1;
  }
  const size_t directory = number_at(block, 4, 4, big_endian);
  const uint32_t entries = number_at(block, directory, 2, big_endian);
  for (size_t i = 0; i < entries; ++i) {
    const View entry = part(block, directory + 2 + 12 * i, 12);
    if (entry.size() == 12 && number_at(entry, 0, 2, big_endian) == kOrientation &&
        number_at(entry, 2, 2, big_endian) == kShort) {
      const uint32_t value = number_at(entry, 8, 2, big_endian);
      return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
    }
  }
  return 1;
}

void turn_upright(int orientation, int64_t height, int64_t width, int channels, std::vector<uint8_t>& pixels) {
  const bool swaps = swaps_axes(orientation);
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const auto pixel = static_cast<size_t>(channels);
  const std::vector<uint8_t> stored(pixels);
  uint8_t* to = pixels.data();
  const int64_t rows = swaps ? width : height;
  const int64_t columns = swaps ? height : width;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column, to += pixel) {
      const int64_t down = swaps ? column : row;
      const int64_t right = swaps ? row : column;
      const int64_t y = from_bottom ? height - 1 - down : down;
      const int64_t x = from_right ? width - 1 - right : right;
      std::memcpy(to, stored.data() + static_cast<size_t>(y * width + x) * pixel, pixel);
    }
  }
}

}  // namespace xrun::runtime
