// Decodes and encodes PNG files in memory with libpng.
#pragma once

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// Both functions read all colour types and depths, interlaced or not; 16 bits are scaled linearly to 8. Gamma, profiles
// and texts in the file are ignored, so a text that unpacks to gigabytes takes no memory. Errors: XG0412. Threads: any.
Result<PictureHeader> read_png_header(std::span<const std::byte> file);
// `out` receives [height, width, target.channels] as stored, without the orientation.
Result<PictureHeader> decode_png(std::span<const std::byte> file, const PixelTarget& target, std::vector<uint8_t>& out);

// Encodes RGB bytes [height, width, 3] as a PNG file. Errors: kWorld if libpng cannot, as for lack of memory.
Result<std::vector<std::byte>> encode_png(std::span<const uint8_t> pixels, int height, int width);

}  // namespace xrun::runtime
