// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/jpeg.h"

#include <csetjmp>
#include <cstdio>
#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

namespace xrun::runtime {
namespace {

// Limits the time of decoding, since a progressive file can contain any number of scans over the whole picture.
constexpr int kMostScans = 200;
constexpr long kDecoderMemory = 512L << 20;

struct JpegState {
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf leave;
  PictureHeader header;  // a copy, since libjpeg frees its own values with the picture
  char message[JMSG_LENGTH_MAX];
};

void on_error(j_common_ptr info) {
  auto* state = reinterpret_cast<JpegState*>(info->err);
  info->err->format_message(info, state->message);
  std::longjmp(state->leave, 1);
}

// Treats warnings as errors, since they report damaged data that libjpeg replaces by grey; only stray bytes between
// markers are harmless.
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

PictureHeader header_of(const jpeg_decompress_struct& info) {
  PictureHeader header{.height = info.image_height, .width = info.image_width};
  for (int c = 0; c < info.num_components && info.comp_info != nullptr && info.progressive_mode != FALSE; ++c) {
    const jpeg_component_info& part = info.comp_info[c];
    header.held += Bytes{part.width_in_blocks} * part.height_in_blocks * DCTSIZE2 * static_cast<Bytes>(sizeof(JCOEF));
  }
  return header;
}

// Reads the header. REQUIRES: `state.leave` is set, since libjpeg jumps to it on errors.
bool begin_jpeg(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file) {
  jpeg_create_decompress(&info);
  info.mem->max_memory_to_use = kDecoderMemory;
  info.progress = &state.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&info, TRUE);
  if (info.image_width < 1 || info.image_height < 1 || info.image_width > kMostPixels / info.image_height) {
    std::snprintf(state.message, sizeof state.message, "%u x %u pixels are too many", info.image_width,
                  info.image_height);
    return false;
  }
  state.header = header_of(info);
  return true;
}

// read_header and decode have no local object with a destructor, since libjpeg leaves them by longjmp.
bool read_header(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file) {
  return setjmp(state.leave) == 0 && begin_jpeg(info, state, file);
}

// Chooses the layout that libjpeg decodes to: grey for grey files, CMYK for CMYK and YCCK files, else RGB. RGB is used
// even if grey is the target, since the stored Y can differ from the grey of the decoded, clamped colours.
PixelLayout choose_layout(jpeg_decompress_struct& info) {
  if (info.jpeg_color_space == JCS_GRAYSCALE) {
    info.out_color_space = JCS_GRAYSCALE;
    return PixelLayout::kGrey;
  }
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) {
    info.out_color_space = JCS_CMYK;
    return PixelLayout::kInvertedCmyk;
  }
  info.out_color_space = JCS_RGB;
  return PixelLayout::kRgb;
}

bool decode(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file, const PixelTarget& target,
            std::vector<uint8_t>& out) {
  if (setjmp(state.leave) != 0 || !begin_jpeg(info, state, file)) {
    return false;
  }
  const PixelLayout layout = choose_layout(info);
  jpeg_start_decompress(&info);
  const JSAMPARRAY stored = (*info.mem->alloc_sarray)(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE,
                                                      info.output_width * static_cast<JDIMENSION>(bytes_of(layout)), 1);
  const size_t row = static_cast<size_t>(info.output_width) * static_cast<size_t>(target.channels);
  out.resize(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    uint8_t* const to = out.data() + row * info.output_scanline;
    jpeg_read_scanlines(&info, stored, 1);
    convert_row(layout, stored[0], info.output_width, target, to);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Calls `use` with libjpeg's state. If `use` returns false, returns an error.
template <typename Use>
Result<PictureHeader> with_jpeg(Use use) {
  JpegState state{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&state.errors);
  state.errors.error_exit = on_error;
  state.errors.emit_message = on_message;
  state.progress.progress_monitor = on_progress;
  const bool good = use(info, state);
  jpeg_destroy_decompress(&info);
  if (!good) {
    return broken_picture(fmt::format("a broken JPEG: {}", state.message));
  }
  return state.header;
}

}  // namespace

Result<PictureHeader> read_jpeg_header(std::span<const std::byte> file) {
  return with_jpeg([&](auto& info, auto& state) { return read_header(info, state, file); });
}

Result<PictureHeader> decode_jpeg(std::span<const std::byte> file, const PixelTarget& target,
                                  std::vector<uint8_t>& out) {
  return with_jpeg([&](auto& info, auto& state) { return decode(info, state, file, target, out); });
}

}  // namespace xrun::runtime
