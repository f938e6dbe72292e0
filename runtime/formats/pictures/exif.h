// Reads the orientation that a camera wrote into a picture, and turns the picture upright.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/formats/pictures/pixels.h"

namespace xrun::runtime {

// Reads the tag Orientation of the EXIF block of a JPEG (APP1), PNG (eXIf) or WebP (EXIF) file, 1 to 8; returns 1
// (upright) if it is missing or cannot be read. The start of a file suffices if it contains the block. Every offset of
// the block is checked.
//   1 upright   2 mirrored left-right   3 turned by 180 degrees   4 mirrored top-bottom
//   5 transposed   6 to be turned right by 90   7 transposed along the other diagonal   8 to be turned left by 90
int exif_orientation(std::span<const std::byte> file);

// Whether turning the picture upright swaps its width and height.
constexpr bool swaps_axes(int orientation) { return orientation >= 5; }

// Turns the interleaved bytes [height, width, channels] of a stored picture upright. If the orientation swaps axes, the
// result is [width, height, channels]. REQUIRES: orientation 2 to 8.
void turn_upright(int orientation, int64_t height, int64_t width, int channels, std::vector<uint8_t>& pixels);

// Converts a box of the upright picture to the box of the same pixels in the stored picture [height, width], and back.
PictureBox stored_box(int orientation, double height, double width, PictureBox upright);
PictureBox upright_box(int orientation, double height, double width, PictureBox stored);

}  // namespace xrun::runtime
