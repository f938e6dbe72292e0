// The format: RIFF, file size, WEBP, then chunks of name, size and data. A file with one picture has a chunk VP8 or
// VP8L, with or without a chunk VP8X before it. An animation has VP8X with the size of its canvas, ANIM, and a chunk
// ANMF for each picture.
#include "runtime/formats/pictures/webp.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <webp/decode.h>

namespace xrun::runtime {
namespace {

Error broken_webp(VP8StatusCode status) {
  constexpr const char* kWhy[] = {"no fault",           "out of memory", "a wrong parameter", "damaged",
                                  "an unknown feature", "suspended",     "aborted",           "cut short"};
  return broken_picture(fmt::format("a broken WebP: {}", kWhy[status]));
}

const uint8_t* data_of(std::span<const std::byte> file) { return reinterpret_cast<const uint8_t*>(file.data()); }

Result<WebPBitstreamFeatures> features_of(std::span<const std::byte> file) {
  WebPBitstreamFeatures features{};
  if (const VP8StatusCode status = WebPGetFeatures(data_of(file), file.size(), &features); status != VP8_STATUS_OK) {
    return broken_webp(status);
  }
  XRUN_TRY(check_picture_size("WebP", features.width, features.height));
  return features;
}

uint32_t number_at(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    number |= std::to_integer<uint32_t>(bytes[at + i]) << (8 * i);
  }
  return number;
}

// A picture of an animation: its place on the canvas, and its bytes as a WebP file without the RIFF header.
struct Frame {
  int left = 0;
  int top = 0;
  std::span<const std::byte> file;
};

// Finds the first picture of an animation with this canvas. It is the data of the first chunk ANMF, which begins with
// 16 bytes of place, size and time.
Result<Frame> first_frame(std::span<const std::byte> file, const WebPBitstreamFeatures& canvas) {
  constexpr size_t kRiffHeader = 12;
  constexpr size_t kChunkHeader = 8;
  constexpr size_t kFrameHeader = 16;
  for (size_t at = kRiffHeader; at + kChunkHeader <= file.size();) {
    const size_t size = number_at(file, at + 4, 4);
    const std::span<const std::byte> data = file.subspan(at + kChunkHeader);
    if (std::memcmp(file.data() + at, "ANMF", 4) != 0) {
      at += std::min(kChunkHeader + size + size % 2, file.size());  // chunks are padded to even sizes
      continue;
    }
    if (size < kFrameHeader || data.size() < size) {
      return broken_webp(VP8_STATUS_NOT_ENOUGH_DATA);
    }
    const auto field = [&](size_t offset) { return static_cast<int>(number_at(data, offset, 3)); };
    const Frame frame{2 * field(0), 2 * field(3), data.first(size).subspan(kFrameHeader)};
    const int width = field(6) + 1;
    const int height = field(9) + 1;
    if (frame.left + width > canvas.width || frame.top + height > canvas.height) {
      return broken_picture("a broken WebP: its first picture exceeds its canvas");
    }
    XRUN_ASSIGN(const WebPBitstreamFeatures own, features_of(frame.file));
    if (own.width != width || own.height != height) {
      return broken_picture("a broken WebP: its first picture has two sizes");
    }
    return frame;
  }
  return broken_webp(VP8_STATUS_NOT_ENOUGH_DATA);
}

// The layout of the decoded pixels. An animation has alpha, since places that its first picture does not cover are
// transparent.
PixelLayout layout_of(const WebPBitstreamFeatures& features) {
  return features.has_alpha != 0 || features.has_animation != 0 ? PixelLayout::kRgba : PixelLayout::kRgb;
}

// Returns the header with the memory that decoding needs. The decoder stores the decoded picture. For a lossless
// picture or the alpha of a lossy one it also stores a copy in its own format; this copy is counted for every file.
PictureHeader header_of(const WebPBitstreamFeatures& features) {
  const Bytes pixels = Bytes{features.width} * features.height;
  return {.height = features.height,
          .width = features.width,
          .held = pixels * (bytes_of(layout_of(features)) + static_cast<Bytes>(sizeof(uint32_t)))};
}

}  // namespace

Result<PictureHeader> read_webp_header(std::span<const std::byte> file) {
  XRUN_ASSIGN(const WebPBitstreamFeatures features, features_of(file));
  return header_of(features);
}

Result<PictureHeader> decode_webp(std::span<const std::byte> file, const PixelTarget& target,
                                  std::vector<uint8_t>& out) {
  WebPDecoderConfig config;
  XRUN_CHECK(WebPInitDecoderConfig(&config) != 0, "a libwebp of another version");
  XRUN_ASSIGN(const WebPBitstreamFeatures features, features_of(file));
  Frame frame{.file = file};
  if (features.has_animation != 0) {
    XRUN_ASSIGN(frame, first_frame(file, features));
  }
  const PixelLayout layout = layout_of(features);
  const auto width = static_cast<size_t>(features.width);
  const auto height = static_cast<size_t>(features.height);
  const auto pixel = static_cast<size_t>(bytes_of(layout));
  const size_t stored_row = width * pixel;
  std::vector<uint8_t> stored(stored_row * height);
  const size_t begin = stored_row * static_cast<size_t>(frame.top) + pixel * static_cast<size_t>(frame.left);
  config.output.colorspace = layout == PixelLayout::kRgba ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {stored.data() + begin, static_cast<int>(stored_row), stored.size() - begin};
  if (const VP8StatusCode status = WebPDecode(data_of(frame.file), frame.file.size(), &config);
      status != VP8_STATUS_OK) {
    return broken_webp(status);
  }
  const size_t row = width * static_cast<size_t>(target.channels);
  out.resize(row * height);
  for (size_t y = 0; y < height; ++y) {
    convert_row(layout, stored.data() + stored_row * y, width, target, out.data() + row * y);
  }
  return header_of(features);
}

}  // namespace xrun::runtime
