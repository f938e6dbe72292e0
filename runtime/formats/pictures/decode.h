// Decodes picture files in memory to upright pixels, whatever their format, and recognises the extensions of their
// names. Files are untrusted: every fault is an Error, and sizes are checked before memory is allocated.
#pragma once

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// The list of formats for messages: "PNG, JPEG, WebP, BMP, PGM and PPM".
std::string picture_formats();

// Whether a file name, or a path, ends with an extension of one of these formats, in any case.
bool has_picture_extension(std::string_view name);

// The usual extension, without a dot, of files that begin with these bytes: "jpg"; empty if the format is unknown.
std::string_view picture_extension(std::span<const std::byte> file);

struct PictureSize {
  int channels = 0;
  int height = 0;
  int width = 0;
};

// Reads the header. The sizes in it are those of the upright picture, after the orientation is applied. The start of a
// file suffices if it contains the header. Errors and threads: like decode_picture.
Result<PictureHeader> read_picture_header(std::span<const std::byte> file);

// Decodes to interleaved bytes [height, width, target.channels], turned upright by the EXIF orientation. `out` is
// resized and reuses its memory. The first bytes of the file determine the format. Errors: XG0412 the file has an
// unknown format, is broken or cut short, or the picture is too large. Threads: any.
Result<PictureSize> decode_picture(std::span<const std::byte> file, const PixelTarget& target,
                                   std::vector<uint8_t>& out);

// The pixels of decode_picture_part, and the place of the part in them.
struct DecodedPart {
  PictureSize size;
  PictureBox box;
};

// Decodes the pixels of `part`, and possibly pixels around it, to interleaved bytes as decode_picture does; `out` may
// be longer than they are. If no approximation is asked for, the pixels of the part are those of decode_picture.
// `header` is the result of read_picture_header, and `part.box` lies within its sizes. Errors: those of decode_picture,
// wherever in the file the damage is. Threads: any.
Result<DecodedPart> decode_picture_part(std::span<const std::byte> file, const PictureHeader& header,
                                        const PixelTarget& target, const PicturePart& part, std::vector<uint8_t>& out);

}  // namespace xrun::runtime
