// JPEG files of every kind that libjpeg-turbo writes, for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <string>
#include <vector>

#include "graph/base/random.h"

namespace xrun::runtime::testing {

struct JpegKind {
  int height = 0;
  int width = 0;
  int components = 3;    // 1: grey, 3: RGB, 4: CMYK
  int samples_down = 1;  // samples of luma for each one of the colours, in a column and in a row
  int samples_right = 1;
  bool progressive = false;
  unsigned restart = 0;  // blocks between restart markers; 0: none
  int quality = 80;
  int orientation = 1;
};

// Makes a JPEG file of waves with noise, which depend on the seed.
inline std::string jpeg_file(const JpegKind& kind, uint64_t seed) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(kind.height);
  info.image_width = static_cast<JDIMENSION>(kind.width);
  info.input_components = kind.components;
  info.in_color_space = kind.components == 1 ? JCS_GRAYSCALE : kind.components == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  info.comp_info[0].v_samp_factor = kind.samples_down;
  info.comp_info[0].h_samp_factor = kind.samples_right;
  info.restart_interval = kind.restart;
  if (kind.progressive) {
    jpeg_simple_progression(&info);
  }
  jpeg_start_compress(&info, TRUE);
  if (kind.orientation != 1) {
    std::string exif("Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\0\0\0\0\0\0\0\0", 32);
    exif[24] = static_cast<char>(kind.orientation);
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(exif.data()),
                      static_cast<unsigned>(exif.size()));
  }
  const RandomStream stream(seed, 0);
  std::vector<JSAMPLE> row(static_cast<size_t>(kind.width * kind.components));
  for (int y = 0; y < kind.height; ++y) {
    for (int i = 0; i < kind.width * kind.components; ++i) {
      const double x = i / kind.components;
      const double phase = static_cast<double>(seed % 7) + i % kind.components;
      const double wave = std::sin(x / 9 + phase) + std::cos(y / 7.0 + x / 31 - phase);
      const double noise = stream.uniform(static_cast<uint64_t>(y * kind.width * kind.components + i)) - 0.5;
      row[static_cast<size_t>(i)] = static_cast<JSAMPLE>(std::clamp(128 + 55 * wave + 30 * noise, 0.0, 255.0));
    }
    JSAMPROW at = row.data();
    jpeg_write_scanlines(&info, &at, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return file;
}

// Draws a kind of picture, of up to `most` pixels on each side.
inline JpegKind draw_jpeg_kind(uint64_t seed, uint64_t most) {
  const RandomStream stream(seed, 7);
  const auto draw = [&](uint64_t at, uint64_t below) { return static_cast<int>(stream.below(at, below)); };
  const int right = 1 << draw(4, 3);
  constexpr int kComponents[] = {1, 3, 3, 3, 3, 4};
  constexpr unsigned kRestarts[] = {0, 0, 1, 3};
  return {.height = 1 + draw(0, most),
          .width = 1 + draw(1, most),
          .components = kComponents[draw(2, 6)],
          .samples_down = right == 4 ? 1 : 1 + draw(3, 2),
          .samples_right = right,
          .progressive = draw(5, 3) == 0,
          .restart = kRestarts[draw(6, 4)],
          .quality = 20 + draw(7, 80),
          .orientation = 1 + draw(8, 8)};
}

}  // namespace xrun::runtime::testing
