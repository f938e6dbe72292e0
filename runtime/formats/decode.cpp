#include "runtime/formats/decode.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

Error broken(std::string message) {
  return content_error("XG0412", std::move(message), "replace the file, or raise `max_bad`");
}

bool too_large(int64_t width, int64_t height) { return width < 1 || height < 1 || width > kMostPixels / height; }

// A progressive file can ask for any number of passes over the whole picture.
constexpr int kMostScans = 200;
constexpr long kDecoderMemory = 512L << 20;

struct JpegState {
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX];
};

void on_error(j_common_ptr info) {
  auto* state = reinterpret_cast<JpegState*>(info->err);
  info->err->format_message(info, state->message);
  std::longjmp(state->leave, 1);
}

// Warnings tell of damaged data that libjpeg papers over with grey; only stray bytes between markers are harmless.
void on_message(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) {
    on_error(info);
  }
}

void on_progress(j_common_ptr info) {
  auto* state = reinterpret_cast<JpegState*>(info->err);
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans) {
    std::snprintf(state->message, sizeof state->message, "more than %d scans", kMostScans);
    std::longjmp(state->leave, 1);
  }
}

// Reads the header; the caller has set the place that libjpeg leaves to.
bool begin_jpeg(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file) {
  jpeg_create_decompress(&info);
  info.mem->max_memory_to_use = kDecoderMemory;
  info.progress = &state.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  if (too_large(info.image_width, info.image_height)) {
    std::snprintf(state.message, sizeof state.message, "%u x %u pixels are too many", info.image_width,
                  info.image_height);
    return false;
  }
  return true;
}

// Nothing with a destructor lives in these two frames: libjpeg leaves them by longjmp.
bool read_jpeg_header(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file) {
  return setjmp(state.leave) == 0 && begin_jpeg(info, state, file);
}

bool decode_jpeg_into(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file, int channels,
                      std::vector<uint8_t>& out) {
  if (setjmp(state.leave) != 0 || !begin_jpeg(info, state, file)) {
    return false;
  }
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  const size_t row = static_cast<size_t>(info.output_width) * static_cast<size_t>(channels);
  out.resize(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW to = out.data() + row * info.output_scanline;
    jpeg_read_scanlines(&info, &to, 1);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Calls `use` with what libjpeg needs; `use` tells whether it went well, then `result` is taken from `info`.
template <typename Use, typename ResultOf>
auto with_jpeg(Use use, ResultOf result) -> Result<decltype(result(std::declval<jpeg_decompress_struct&>()))> {
  JpegState state{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = on_error;
  state.errors.emit_message = on_message;
  state.progress.progress_monitor = on_progress;
  const bool good = use(info, state);
  const auto found = result(info);
  jpeg_destroy_decompress(&info);
  if (!good) {
    return broken(fmt::format("a broken JPEG: {}", state.message));
  }
  return found;
}

Result<PictureSize> decode_jpeg(std::span<const std::byte> file, int channels, std::vector<uint8_t>& out) {
  return with_jpeg(
      [&](auto& info, auto& state) { return decode_jpeg_into(info, state, file, channels, out); },
      [&](const jpeg_decompress_struct& info) {
        return PictureSize{channels, static_cast<int>(info.output_height), static_cast<int>(info.output_width)};
      });
}

PictureHeader header_of(const jpeg_decompress_struct& info) {
  PictureHeader header{.height = info.image_height, .width = info.image_width};
  for (int c = 0; c < info.num_components && info.comp_info != nullptr && info.progressive_mode != FALSE; ++c) {
    const jpeg_component_info& part = info.comp_info[c];
    header.held += Bytes{part.width_in_blocks} * part.height_in_blocks * DCTSIZE2 * static_cast<Bytes>(sizeof(JCOEF));
  }
  return header;
}

// libpng's simplified interface catches its own longjmps.
Status begin_png(png_image& image, std::span<const std::byte> file) {
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) {
    Error error = broken(fmt::format("a broken PNG: {}", image.message));
    png_image_free(&image);
    return error;
  }
  if (too_large(image.width, image.height)) {
    png_image_free(&image);
    return broken(fmt::format("a broken PNG: {} x {} pixels are too many", image.width, image.height));
  }
  return {};
}

Result<PictureHeader> read_png_header(std::span<const std::byte> file) {
  png_image image{};
  XRUN_TRY(begin_png(image, file));
  const PictureHeader header{.height = image.height, .width = image.width};
  png_image_free(&image);
  return header;
}

Result<PictureSize> decode_png(std::span<const std::byte> file, int channels, std::vector<uint8_t>& out) {
  png_image image{};
  XRUN_TRY(begin_png(image, file));
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  const PictureSize size{channels, static_cast<int>(image.height), static_cast<int>(image.width)};
  out.resize(PNG_IMAGE_SIZE(image));
  const png_color white{255, 255, 255};
  if (png_image_finish_read(&image, &white, out.data(), 0, nullptr) == 0) {
    Error error = broken(fmt::format("a broken PNG: {}", image.message));
    png_image_free(&image);
    return error;
  }
  return size;
}

enum class Kind { kPng, kJpeg };

Result<Kind> kind_of(std::span<const std::byte> file) {
  constexpr unsigned char kPng[] = {0x89, 'P', 'N', 'G'};
  constexpr unsigned char kJpeg[] = {0xff, 0xd8, 0xff};
  if (file.size() >= sizeof kPng && std::memcmp(file.data(), kPng, sizeof kPng) == 0) {
    return Kind::kPng;
  }
  if (file.size() >= sizeof kJpeg && std::memcmp(file.data(), kJpeg, sizeof kJpeg) == 0) {
    return Kind::kJpeg;
  }
  return broken(file.empty() ? "an empty file" : "neither a JPEG nor a PNG");
}

}  // namespace

Result<PictureHeader> read_picture_header(std::span<const std::byte> file) {
  XRUN_ASSIGN(const Kind kind, kind_of(file));
  if (kind == Kind::kPng) {
    return read_png_header(file);
  }
  return with_jpeg([&](auto& info, auto& state) { return read_jpeg_header(info, state, file); }, header_of);
}

Result<PictureSize> decode_picture(std::span<const std::byte> file, int channels, std::vector<uint8_t>& out) {
  XRUN_CHECK(channels == 1 || channels == 3, "grey or RGB");
  XRUN_ASSIGN(const Kind kind, kind_of(file));
  return kind == Kind::kPng ? decode_png(file, channels, out) : decode_jpeg(file, channels, out);
}

}  // namespace xrun::runtime
