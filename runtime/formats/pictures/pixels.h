// Pixels as picture files store them, and their conversion to the grey or RGB bytes that a model reads. One rule holds
// for all formats: transparent pixels are blended over a background, grey is 0.299 R + 0.587 G + 0.114 B (ITU-R 601),
// both on the stored values, as in PIL and OpenCV. Gamma and colour profiles are not applied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// The header of a picture file. Sizes are those of the stored picture, except from read_picture_header.
struct PictureHeader {
  int64_t height = 0;
  int64_t width = 0;
  // Memory that decoding needs in addition to the result: coefficients of a progressive JPEG, the rows of an interlaced
  // PNG, the picture before it is turned upright.
  Bytes held = 0;
  int orientation = 1;  // orientation of the stored picture (exif.h); set by read_picture_header
};

// A rectangle in a picture, in pixels from its top left corner. Its sides may lie within pixels, since a JPEG can be
// decoded at a fraction of its size.
struct PictureBox {
  double top = 0;
  double left = 0;
  double height = 0;
  double width = 0;

  bool operator==(const PictureBox&) const = default;
};

// The part of a picture that is needed.
struct PicturePart {
  PictureBox box;  // whole pixels within the picture
  // If they are above 0, an approximation is enough: a JPEG may be decoded at 1/2, 1/4 or 1/8 of its size, as long as
  // the part keeps this size, in pixels and in samples of each colour.
  int64_t least_height = 0;
  int64_t least_width = 0;
};

// The largest picture that is decoded, in pixels.
inline constexpr int64_t kMostPixels = int64_t{1} << 26;

// The form of the pixels to which a picture is decoded.
struct PixelTarget {
  int channels = 3;                        // 1: grey, 3: RGB
  std::array<uint8_t, 3> background = {};  // RGB colour shown under transparent pixels; default: black
};

// The bytes of a pixel, interleaved. In kInvertedCmyk (Adobe's variant in JPEG files) 255 means no ink.
enum class PixelLayout : uint8_t { kGrey, kGreyAlpha, kRgb, kRgba, kInvertedCmyk };

int bytes_of(PixelLayout layout);

// Converts one row of `width` pixels; `to` has width * target.channels bytes.
void convert_row(PixelLayout layout, const uint8_t* from, size_t width, const PixelTarget& target, uint8_t* to);

// Makes the error XG0412 for a picture with broken content.
Error broken_picture(std::string message);

// Returns XG0412 unless width, height >= 1 and width * height <= kMostPixels. `format`: for the message, such as "PNG".
Status check_picture_size(std::string_view format, int64_t width, int64_t height);

}  // namespace xrun::runtime
