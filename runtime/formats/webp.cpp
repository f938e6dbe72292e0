#include "runtime/formats/webp.h"

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
  if (features.has_animation != 0) {
    return broken_picture("a WebP with several pictures: an animation is no sample");
  }
  XRUN_TRY(check_picture_size("WebP", features.width, features.height));
  return features;
}

PixelLayout layout_of(const WebPBitstreamFeatures& features) {
  return features.has_alpha != 0 ? PixelLayout::kRgba : PixelLayout::kRgb;
}

// The decoder holds the decoded picture; a lossless one, or the alpha of a lossy one, it also holds in its own format,
// which is counted for every file.
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
  XRUN_ASSIGN(config.input, features_of(file));
  const PixelLayout layout = layout_of(config.input);
  const auto width = static_cast<size_t>(config.input.width);
  const auto height = static_cast<size_t>(config.input.height);
  const size_t stored_row = width * static_cast<size_t>(bytes_of(layout));
  std::vector<uint8_t> stored(stored_row * height);
  config.output.colorspace = layout == PixelLayout::kRgba ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {stored.data(), static_cast<int>(stored_row), stored.size()};
  if (const VP8StatusCode status = WebPDecode(data_of(file), file.size(), &config); status != VP8_STATUS_OK) {
    return broken_webp(status);
  }
  const size_t row = width * static_cast<size_t>(target.channels);
  out.resize(row * height);
  for (size_t y = 0; y < height; ++y) {
    convert_row(layout, stored.data() + stored_row * y, width, target, out.data() + row * y);
  }
  return header_of(config.input);
}

}  // namespace xrun::runtime
