// Decodes WebP files in memory to pixels with libwebp.
#pragma once

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// Both functions read lossy and lossless files. An animation is read as its first picture, placed on the whole canvas.
// Errors: XG0412. Threads: any.
Result<PictureHeader> read_webp_header(std::span<const std::byte> file);
// `out` receives [height, width, target.channels] as stored, without the orientation.
Result<PictureHeader> decode_webp(std::span<const std::byte> file, const PixelTarget& target,
                                  std::vector<uint8_t>& out);

}  // namespace xrun::runtime
