// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/exif.h"

#include <algorithm>
#include <cstring>
#include <libexif/exif-data.h>
#include <memory>
#include <string_view>
#include <zlib.h>

namespace xrun::runtime {
namespace {

using View = std::span<const std::byte>;

constexpr std::string_view kPrefix("Exif\0\0", 6);
// Only this number of bytes at the start of a file is searched. The EXIF block of a JPEG is a segment of at most 64 KiB
// after a few other segments, so this is more than enough.
constexpr size_t kLongest = 1 << 20;

bool starts_with(View bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// Reads a number of `width` bytes at `at`; bytes after the end of the data are left out.
uint32_t number_at(View bytes, size_t at, size_t width, bool big_endian) {
  uint32_t value = 0;
  for (size_t i = 0; i < width && at + i < bytes.size(); ++i) {
    const auto byte = std::to_integer<uint32_t>(bytes[at + i]);
    value = big_endian ? value << 8 | byte : value | byte << (8 * i);
  }
  return value;
}

// Returns the bytes from `at` on, at most `length`.
View part(View bytes, size_t at, size_t length) {
  return at >= bytes.size() ? View() : bytes.subspan(at, std::min(length, bytes.size() - at));
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
      // Some programs also write the prefix that the block has in a JPEG.
      return starts_with(content, kPrefix) ? content.subspan(kPrefix.size()) : content;
    }
    at += 8 + length + length % 2;
  }
  return {};
}

// Returns the EXIF block of a PNG or WebP file, with the prefix that the block would have in a JPEG.
std::vector<std::byte> prefixed_block(View file) {
  const bool is_png = starts_with(file, "\x89PNG");
  const bool is_webp = starts_with(file, "RIFF") && starts_with(part(file, 8, 4), "WEBP");
  const View block = is_png ? block_of_png(file) : is_webp ? block_of_webp(file) : View();
  const View prefix = std::as_bytes(std::span(kPrefix));
  std::vector<std::byte> bytes(prefix.begin(), prefix.end());
  bytes.insert(bytes.end(), block.begin(), block.end());
  return bytes;
}

struct FreeExif {
  void operator()(ExifData* data) const { exif_data_unref(data); }
};

}  // namespace

int exif_orientation(std::span<const std::byte> file) {
  // libexif itself finds the EXIF block in the segments of a JPEG.
  const bool is_jpeg = starts_with(file, "\xFF\xD8\xFF");
  const std::vector<std::byte> prefixed = is_jpeg ? std::vector<std::byte>() : prefixed_block(file);
  const View block = part(is_jpeg ? file : View(prefixed), 0, kLongest);
  const std::unique_ptr<ExifData, FreeExif> data(exif_data_new());
  if (data == nullptr) {
    return 1;
  }
  // libexif must neither repair tags of a wrong type nor add missing tags.
  exif_data_unset_option(data.get(), EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);
  exif_data_load_data(data.get(), reinterpret_cast<const unsigned char*>(block.data()),
                      static_cast<unsigned>(block.size()));
  const ExifEntry* entry = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
  if (entry == nullptr || entry->format != EXIF_FORMAT_SHORT || entry->components == 0) {
    return 1;
  }
  const int value = exif_get_short(entry->data, exif_data_get_byte_order(data.get()));
  return value >= 1 && value <= 8 ? value : 1;
}

namespace {

bool from_right(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
bool from_bottom(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

PictureBox mirrored(int orientation, double height, double width, PictureBox stored) {
  stored.top = from_bottom(orientation) ? height - stored.top - stored.height : stored.top;
  stored.left = from_right(orientation) ? width - stored.left - stored.width : stored.left;
  return stored;
}

PictureBox swapped(int orientation, const PictureBox& box) {
  return swaps_axes(orientation) ? PictureBox{box.left, box.top, box.width, box.height} : box;
}

}  // namespace

PictureBox stored_box(int orientation, double height, double width, PictureBox upright) {
  return mirrored(orientation, height, width, swapped(orientation, upright));
}

PictureBox upright_box(int orientation, double height, double width, PictureBox stored) {
  return swapped(orientation, mirrored(orientation, height, width, stored));
}

void turn_upright(int orientation, int64_t height, int64_t width, int channels, std::vector<uint8_t>& pixels) {
  const bool swaps = swaps_axes(orientation);
  const auto pixel = static_cast<size_t>(channels);
  const std::vector<uint8_t> stored(pixels);
  uint8_t* to = pixels.data();
  const int64_t rows = swaps ? width : height;
  const int64_t columns = swaps ? height : width;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column, to += pixel) {
      const int64_t down = swaps ? column : row;
      const int64_t right = swaps ? row : column;
      const int64_t y = from_bottom(orientation) ? height - 1 - down : down;
      const int64_t x = from_right(orientation) ? width - 1 - right : right;
      std::memcpy(to, stored.data() + static_cast<size_t>(y * width + x) * pixel, pixel);
    }
  }
}

}  // namespace xrun::runtime
