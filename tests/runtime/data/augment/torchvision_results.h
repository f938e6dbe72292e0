// Results of torchvision, and the pictures that they are results of (tests/runtime/data/files/torchvision/).
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/data/pictures/picture.h"

namespace xrun::runtime::testing {

inline constexpr int kResultWidth = 23;
inline constexpr int kResultHeight = 17;

// The pixels that make_expected.py computes.
inline int result_pixel(int c, int y, int x) { return 20 + (9 * x + 5 * y + 40 * c + x * y * (c + 3) % 37) % 190; }

inline Picture result_picture(int channels) {
  Picture picture;
  picture.reshape(channels, kResultHeight, kResultWidth);
  for (int c = 0; c < channels; ++c) {
    for (int y = 0; y < kResultHeight; ++y) {
      for (int x = 0; x < kResultWidth; ++x) {
        picture.row(c, y)[x] = static_cast<float>(result_pixel(c, y, x));
      }
    }
  }
  return picture;
}

// The lines of expected.txt that begin with `word`, without that word.
inline std::vector<std::string> results_of(const std::string& word) {
  std::ifstream in(std::string(XRUN_SOURCE_DIR) + "/tests/runtime/data/files/torchvision/expected.txt");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(word + " ")) {
      lines.push_back(line.substr(word.size() + 1));
    }
  }
  return lines;
}

// The pixels of a picture, plane by plane.
inline std::vector<float> pixels_of(const Picture& picture) {
  std::vector<float> pixels;
  for (int c = 0; c < picture.channels(); ++c) {
    for (int y = 0; y < picture.height(); ++y) {
      pixels.insert(pixels.end(), picture.row(c, y), picture.row(c, y) + picture.width());
    }
  }
  return pixels;
}

}  // namespace xrun::runtime::testing
