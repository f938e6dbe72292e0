// Random brightness, contrast and saturation of a picture.
#pragma once

#include "runtime/data/pictures/picture.h"

namespace xrun::runtime {

// x · brightness, then mean + contrast · (x - mean) with the mean of the grey picture, then grey + saturation · (x -
// grey). Grey is 0.299 R + 0.587 G + 0.114 B (ITU-R 601) of three channels, and the first channel otherwise; saturation
// applies only to three channels. Nothing is clamped, since the range of x is not known here.
void jitter(Picture& picture, float brightness, float contrast, float saturation);

}  // namespace xrun::runtime
