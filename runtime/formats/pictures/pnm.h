// Decodes PGM and PPM files in memory to pixels.
#pragma once

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// Both functions read P2 and P5 (grey), P3 and P6 (RGB), with one or two bytes a value; values are scaled to 0..255.
// Errors: XG0412. Threads: any.
Result<PictureHeader> read_pnm_header(std::span<const std::byte> file);
// `out` receives [height, width, target.channels].
Result<PictureHeader> decode_pnm(std::span<const std::byte> file, const PixelTarget& target, std::vector<uint8_t>& out);

}  // namespace xrun::runtime
