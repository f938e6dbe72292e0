// Files that the cases share: small pictures of one colour, in one directory for each class.
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <string>

#include "tests/support/command.h"

namespace xrun::testing {

// Returns a PPM picture of 8 x 8 pixels of about this colour. Another `seed` gives a picture with other bytes.
inline std::string ppm_of(int red, int green, int blue, int seed) {
  std::string text = "P6\n8 8\n255\n";
  for (int pixel = 1; pixel <= 64; ++pixel) {
    text += static_cast<char>(red + (pixel * seed) % 9);
    text += static_cast<char>(green + (pixel * seed) % 7);
    text += static_cast<char>(blue + (pixel * seed) % 5);
  }
  return text;
}

inline void write_picture(const TemporaryDirectory& at, const std::string& path, int red, int green, int blue,
                          int seed) {
  std::filesystem::create_directories(std::filesystem::path(at.path() + "/" + path).parent_path());
  at.write(path, ppm_of(red, green, blue, seed));
}

// Writes `count` pictures of each of the classes cat, dog and owl to `directory`.
inline void write_animals(const TemporaryDirectory& at, const std::string& directory, int count) {
  for (int i = 1; i <= count; ++i) {
    write_picture(at, fmt::format("{}/cat/{}.ppm", directory, i), 200, 40, 40, i);
    write_picture(at, fmt::format("{}/dog/{}.ppm", directory, i), 40, 200, 40, i);
    write_picture(at, fmt::format("{}/owl/{}.ppm", directory, i), 40, 40, 200, i);
  }
}

}  // namespace xrun::testing
