// Operations on pictures whose pixels are whole numbers of 0 to 255, with the results of Pillow, bit for bit.
// torchvision calls Pillow for them if a picture is not a tensor.
//   Source: Pillow 12, ImageEnhance.py, ImageOps.py, Blend.c, Filter.c, Geometry.c.
// REQUIRES, for all but round_to_bytes: pixels are whole numbers of 0 to 255, and there are one or three channels:
// grey, or RGB. The results are such pictures again.
#pragma once

#include <array>

#include "runtime/data/pictures/picture.h"

namespace xrun::runtime {

// Rounds each pixel to the nearest whole number of 0 to 255, halves to even.
void round_to_bytes(Picture& picture);

// These blend the picture with another one: other + factor · (x - other), without its fraction, limited to 0..255.
//   brightness  black
//   color       its grey values (ITU-R 601); a grey picture does not change
//   contrast    the mean of its grey values, rounded
//   sharpness   a 3 x 3 mean in which the pixel counts five times; the border does not change. `smooth` is working
//               memory
void adjust_brightness(Picture& picture, float factor);
void adjust_color(Picture& picture, float factor);
void adjust_contrast(Picture& picture, float factor);
void adjust_sharpness(Picture& picture, float factor, Picture& smooth);

// Clears all but the `bits` highest bits of each pixel; 1 <= bits <= 8.
void posterize(Picture& picture, int bits);
// Pixels of `threshold` and more become 255 - x.
void solarize(Picture& picture, double threshold);
// Stretches each channel to 0..255. A channel with a single value does not change.
void autocontrast(Picture& picture);
// Makes the values of each channel equally frequent, as far as possible.
void equalize(Picture& picture);

// A map of points: x' = m[0]·x + m[1]·y + m[2], y' = m[3]·x + m[4]·y + m[5].
using PointMap = std::array<double, 6>;

// Sets each pixel of `to` to the pixel of `from` at the map of its centre, (x + 1/2, y + 1/2), or to `fill` if that
// point lies outside. Coordinates are rounded to 1/65536. Both pictures have the same size.
void warp_nearest(const Picture& from, const PointMap& map, float fill, Picture& to);

}  // namespace xrun::runtime
