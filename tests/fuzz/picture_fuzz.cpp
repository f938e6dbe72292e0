// Fuzzes picture files of all formats: they are decoded or rejected. Seeds are in tests/pictures. Pictures above a
// megapixel are left to libFuzzer's memory limit.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/formats/pictures/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> pixels;
  for (const int channels : {1, 3}) {
    const auto picture =
        xrun::runtime::decode_picture(std::as_bytes(std::span(data, size)), {.channels = channels}, pixels);
    if (picture.ok()) {
      XRUN_CHECK(static_cast<int64_t>(pixels.size()) == int64_t{picture->channels} * picture->height * picture->width,
                 "pixels fill the size");
    }
  }
  return 0;
}
