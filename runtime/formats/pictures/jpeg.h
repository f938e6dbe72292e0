// Decodes JPEG files in memory to pixels with libjpeg-turbo.
#pragma once

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// Both functions read grey, RGB, YCbCr, CMYK and YCCK files of up to 200 scans. Damaged files, which libjpeg would fill
// with grey, are rejected. Errors: XG0412. Threads: any.
Result<PictureHeader> read_jpeg_header(std::span<const std::byte> file);
// `out` receives [height, width, target.channels] as stored, without the orientation.
Result<PictureHeader> decode_jpeg(std::span<const std::byte> file, const PixelTarget& target,
                                  std::vector<uint8_t>& out);

}  // namespace xrun::runtime
