// Decodes BMP files in memory to pixels.
#pragma once

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// Both read uncompressed files of 1, 4, 8 (palette), 16, 24 and 32 bits a pixel, with or without masks, with headers of
// 12 bytes (OS/2 1.x) or of at least 40. A fourth byte is alpha only if a mask says so. Errors: XG0412. Threads: any.
Result<PictureHeader> read_bmp_header(std::span<const std::byte> file);
// `out` receives [height, width, target.channels].
Result<PictureHeader> decode_bmp(std::span<const std::byte> file, const PixelTarget& target, std::vector<uint8_t>& out);

}  // namespace xrun::runtime
