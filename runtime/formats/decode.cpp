#include "runtime/formats/decode.h"

#include <cstring>

#include "runtime/formats/bmp.h"
#include "runtime/formats/exif.h"
#include "runtime/formats/jpeg.h"
#include "runtime/formats/png.h"
#include "runtime/formats/pnm.h"
#include "runtime/formats/webp.h"

namespace xrun::runtime {
namespace {

struct PictureFormat {
  std::string_view start;  // of every file of the format
  Result<PictureHeader> (*header)(std::span<const std::byte> file);
  Result<PictureHeader> (*decode)(std::span<const std::byte> file, const PixelTarget& target,
                                  std::vector<uint8_t>& out);
};

constexpr PictureFormat kFormats[] = {
    {"\x89PNG", read_png_header, decode_png}, {"\xFF\xD8\xFF", read_jpeg_header, decode_jpeg},
    {"RIFF", read_webp_header, decode_webp},  {"BM", read_bmp_header, decode_bmp},
    {"P2", read_pnm_header, decode_pnm},      {"P3", read_pnm_header, decode_pnm},
    {"P5", read_pnm_header, decode_pnm},      {"P6", read_pnm_header, decode_pnm},
};

Result<const PictureFormat*> format_of(std::span<const std::byte> file) {
  for (const PictureFormat& format : kFormats) {
    if (file.size() >= format.start.size() && std::memcmp(file.data(), format.start.data(), format.start.size()) == 0) {
      return &format;
    }
  }
  return broken_picture(file.empty() ? "an empty file" : "no PNG, JPEG, WebP, BMP, PGM or PPM");
}

}  // namespace

Result<PictureHeader> read_picture_header(std::span<const std::byte> file) {
  XRUN_ASSIGN(const PictureFormat* format, format_of(file));
  XRUN_ASSIGN(PictureHeader header, format->header(file));
  const int orientation = exif_orientation(file);
  if (orientation != 1) {
    header.held += 3 * header.height * header.width;  // turn_upright copies the picture
  }
  if (swaps_axes(orientation)) {
    std::swap(header.height, header.width);
  }
  return header;
}

Result<PictureSize> decode_picture(std::span<const std::byte> file, const PixelTarget& target,
                                   std::vector<uint8_t>& out) {
  XRUN_CHECK(target.channels == 1 || target.channels == 3, "grey or RGB");
  XRUN_ASSIGN(const PictureFormat* format, format_of(file));
  XRUN_ASSIGN(PictureHeader stored, format->decode(file, target, out));
  const int orientation = exif_orientation(file);
  if (orientation != 1) {
    turn_upright(orientation, stored.height, stored.width, target.channels, out);
  }
  if (swaps_axes(orientation)) {
    std::swap(stored.height, stored.width);
  }
  return PictureSize{target.channels, static_cast<int>(stored.height), static_cast<int>(stored.width)};
}

}  // namespace xrun::runtime
