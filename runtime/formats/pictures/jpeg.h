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

// The pixels that decode_jpeg_part decoded: [height, width]. `box` is the place of the part in them.
struct JpegPart {
  int64_t height = 0;
  int64_t width = 0;
  PictureBox box;
};

// Decodes `part` of the stored picture with some pixels around it. The whole file is read, so that errors are those of
// decode_jpeg; only the last steps, from frequencies to colours, are left out for other pixels. If `part` permits an
// approximation, these steps also compute fewer pixels: a block of 8 x 8 pixels becomes 4 x 4, 2 x 2 or one pixel, from
// its lowest frequencies (the scaled DCT of libjpeg). At the size of the file, the pixels of the part are those of
// decode_jpeg. REQUIRES: `part` lies within the picture.
Result<JpegPart> decode_jpeg_part(std::span<const std::byte> file, const PixelTarget& target, const PicturePart& part,
                                  std::vector<uint8_t>& out);

}  // namespace xrun::runtime
