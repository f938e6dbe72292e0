// JPEG and PNG files in memory to pixels. Files are foreign: every fault is an Error, and sizes are checked before
// memory is taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

struct PictureSize {
  int channels = 0;
  int height = 0;
  int width = 0;
};

// What a file says before anything is decoded.
struct PictureHeader {
  int64_t height = 0;
  int64_t width = 0;
  Bytes held =
      0;  // by the decoder while it works: a JPEG of several passes keeps the coefficients of the whole picture
};

// The largest picture that is decoded, in pixels.
inline constexpr int64_t kMostPixels = int64_t{1} << 26;

// Errors and threads: as decode_picture.
Result<PictureHeader> read_picture_header(std::span<const std::byte> file);

// Decodes to `channels` (1: grey, 3: RGB) interleaved bytes [height, width, channels], whatever the file holds
// (palette, 1 or 16 bits; transparency over white). `out` grows to the size and keeps its memory. The kind of file is
// found by its first bytes. Errors: XG0412: no JPEG or PNG, broken, cut short, too large. Threads: any.
Result<PictureSize> decode_picture(std::span<const std::byte> file, int channels, std::vector<uint8_t>& out);

}  // namespace xrun::runtime
