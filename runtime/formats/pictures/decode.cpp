#include "runtime/formats/pictures/decode.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "runtime/formats/pictures/bmp.h"
#include "runtime/formats/pictures/exif.h"
#include "runtime/formats/pictures/jpeg.h"
#include "runtime/formats/pictures/png.h"
#include "runtime/formats/pictures/pnm.h"
#include "runtime/formats/pictures/webp.h"

namespace xrun::runtime {
namespace {

struct PictureFormat {
  std::string_view name;
  std::string_view extensions;  // extensions of file names, each followed by a space
  std::string_view usual;       // the extension of new files
  std::string_view start;       // first bytes of every file of the format
  Result<PictureHeader> (*header)(std::span<const std::byte> file);
  Result<PictureHeader> (*decode)(std::span<const std::byte> file, const PixelTarget& target,
                                  std::vector<uint8_t>& out);
};

// The extensions are those under which Pillow opens files of these formats.
constexpr PictureFormat kFormats[] = {
    {"PNG", ".png .apng ", "png", "\x89PNG", read_png_header, decode_png},
    {"JPEG", ".jpg .jpeg .jpe .jfif ", "jpg", "\xFF\xD8\xFF", read_jpeg_header, decode_jpeg},
    {"WebP", ".webp ", "webp", "RIFF", read_webp_header, decode_webp},
    {"BMP", ".bmp .dib ", "bmp", "BM", read_bmp_header, decode_bmp},
    {"PGM", ".pgm .pnm ", "pgm", "P2", read_pnm_header, decode_pnm},
    {"PGM", "", "pgm", "P5", read_pnm_header, decode_pnm},
    {"PPM", ".ppm ", "ppm", "P3", read_pnm_header, decode_pnm},
    {"PPM", "", "ppm", "P6", read_pnm_header, decode_pnm},
};

// Returns "PNG, JPEG, WebP, BMP, PGM `word` PPM".
std::string list_formats(std::string_view word) {
  std::string list;
  for (size_t i = 0; i < std::size(kFormats); ++i) {
    if (kFormats[i].extensions.empty()) {
      continue;  // the format was already listed, for files with another start
    }
    const bool last = kFormats[i].name == std::end(kFormats)[-1].name;
    list += (list.empty() ? "" : last ? fmt::format(" {} ", word) : ", ") + std::string(kFormats[i].name);
  }
  return list;
}

Result<const PictureFormat*> format_of(std::span<const std::byte> file) {
  for (const PictureFormat& format : kFormats) {
    if (file.size() >= format.start.size() && std::memcmp(file.data(), format.start.data(), format.start.size()) == 0) {
      return &format;
    }
  }
  return broken_picture(file.empty() ? "an empty file" : "no " + list_formats("or"));
}

}  // namespace

std::string picture_formats() { return list_formats("and"); }

bool has_picture_extension(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.find('/', dot) != std::string_view::npos) {
    return false;
  }
  std::string extension(name.substr(dot));
  std::ranges::transform(extension, extension.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return std::ranges::any_of(kFormats, [&](const PictureFormat& format) {
    return extension.find(' ') == std::string::npos &&
           format.extensions.find(extension + " ") != std::string_view::npos;
  });
}

std::string_view picture_extension(std::span<const std::byte> file) {
  const auto format = format_of(file);
  return format.ok() ? (*format)->usual : "";
}

Result<PictureHeader> read_picture_header(std::span<const std::byte> file) {
  XRUN_ASSIGN(const PictureFormat* format, format_of(file));
  XRUN_ASSIGN(PictureHeader header, format->header(file));
  const int orientation = exif_orientation(file);
  header.orientation = orientation;
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

Result<DecodedPart> decode_picture_part(std::span<const std::byte> file, const PictureHeader& header,
                                        const PixelTarget& target, const PicturePart& part, std::vector<uint8_t>& out) {
  XRUN_ASSIGN(const PictureFormat* format, format_of(file));
  if (format->decode != decode_jpeg) {
    XRUN_ASSIGN(const PictureSize size, decode_picture(file, target, out));
    return DecodedPart{size, part.box};
  }
  const int orientation = header.orientation;
  int64_t height = header.height;
  int64_t width = header.width;
  PicturePart stored = part;
  if (swaps_axes(orientation)) {
    std::swap(height, width);
    std::swap(stored.least_height, stored.least_width);
  }
  stored.box = stored_box(orientation, static_cast<double>(height), static_cast<double>(width), part.box);
  XRUN_ASSIGN(JpegPart made, decode_jpeg_part(file, target, stored, out));
  if (orientation != 1) {
    turn_upright(orientation, made.height, made.width, target.channels, out);
    made.box = upright_box(orientation, static_cast<double>(made.height), static_cast<double>(made.width), made.box);
  }
  if (swaps_axes(orientation)) {
    std::swap(made.height, made.width);
  }
  return DecodedPart{{target.channels, static_cast<int>(made.height), static_cast<int>(made.width)}, made.box};
}

}  // namespace xrun::runtime
