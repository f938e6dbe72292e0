// Fuzzes picture files of all formats: they are decoded or rejected. Seeds are in tests/pictures. Pictures above a
// megapixel are left to libFuzzer's memory limit.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/formats/pictures/decode.h"

namespace {

// A part of a picture that can be decoded can be decoded as well, at its size and at a fraction of it.
void fuzz_part(const uint8_t* data, size_t size, int channels, std::vector<uint8_t>& pixels) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto header = xrun::runtime::read_picture_header(file);
  XRUN_CHECK(header.ok(), "a picture without a header was decoded");
  const auto third = [](int64_t side) { return static_cast<double>(side / 3); };
  const xrun::runtime::PictureBox box{third(header->height), third(header->width), third(header->height) + 1,
                                      third(header->width) + 1};
  if (box.top + box.height > static_cast<double>(header->height) ||
      box.left + box.width > static_cast<double>(header->width)) {
    return;
  }
  for (const int64_t least : {0, 1}) {
    const auto part = xrun::runtime::decode_picture_part(
        file, *header, {.channels = channels}, {.box = box, .least_height = least, .least_width = least}, pixels);
    XRUN_CHECK(part.ok() && part->box.top + part->box.height <= part->size.height &&
                   part->box.left + part->box.width <= part->size.width,
               "the part lies in the pixels");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<uint8_t> pixels;
  for (const int channels : {1, 3}) {
    const auto picture =
        xrun::runtime::decode_picture(std::as_bytes(std::span(data, size)), {.channels = channels}, pixels);
    if (picture.ok()) {
      XRUN_CHECK(static_cast<int64_t>(pixels.size()) == int64_t{picture->channels} * picture->height * picture->width,
                 "pixels fill the size");
      fuzz_part(data, size, channels, pixels);
    }
  }
  return 0;
}
