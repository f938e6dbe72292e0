#include "runtime/bench/calibration/jpeg_picture.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <jpeglib.h>
#include <vector>

#include "graph/base/random.h"

namespace xrun::runtime {

std::string jpeg_picture(int height, int width) {
  constexpr int kQuality = 85;
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_height = static_cast<JDIMENSION>(height);
  info.image_width = static_cast<JDIMENSION>(width);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kQuality, TRUE);
  jpeg_start_compress(&info, TRUE);
  const RandomStream stream(1, 0);
  std::vector<JSAMPLE> row(static_cast<size_t>(width) * 3);
  for (int y = 0; y < height; ++y) {
    for (int i = 0; i < width * 3; ++i) {
      const float noise =
          stream.uniform(static_cast<uint64_t>(y) * static_cast<uint64_t>(width) * 3 + static_cast<uint64_t>(i));
      const double wave = std::sin(0.05 * y) + std::sin(0.03 * (i / 3.0) + i % 3);
      row[static_cast<size_t>(i)] = static_cast<JSAMPLE>(128 + 50 * wave + 20 * noise);
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);  // libjpeg allocates the file by malloc
  return file;
}

}  // namespace xrun::runtime
