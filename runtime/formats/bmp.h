// BMP files in memory to pixels.
#pragma once

#include "runtime/formats/pixels.h"

namespace xrun::runtime {

// Both read files of 1, 4, 8 (palette), 16, 24 and 32 bits a pixel that are not compressed, with masks or without, of
// every header since OS/2 1.x. A fourth byte is alpha only where a mask says so. Errors: XG0412. Threads: any.
Result<PictureHeader> read_bmp_header(std::span<const std::byte> file);
// `out` gets [height, width, target.channels].
Result<PictureHeader> decode_bmp(std::span<const std::byte> file, const PixelTarget& target, std::vector<uint8_t>& out);

}  // namespace xrun::runtime
