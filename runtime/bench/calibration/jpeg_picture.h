// A JPEG file that is made for measurements.
#pragma once

#include <string>

namespace xrun::runtime {

// Returns a JPEG file of quality 85 with colours at half the resolution, as cameras write them: waves with noise.
std::string jpeg_picture(int height, int width);

}  // namespace xrun::runtime
