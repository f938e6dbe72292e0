// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/jpeg.h"

#include <algorithm>
#include <cmath>
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

// Reads the next row to `to`. `stored`: memory for a row as libjpeg decodes it.
void read_row(jpeg_decompress_struct& info, PixelLayout layout, const PixelTarget& target, JSAMPARRAY stored,
              uint8_t* to) {
  if (bytes_of(layout) == target.channels) {
    JSAMPROW row = to;
    jpeg_read_scanlines(&info, &row, 1);
    return;
  }
  jpeg_read_scanlines(&info, stored, 1);
  convert_row(layout, stored[0], info.output_width, target, to);
}

JSAMPARRAY new_row(jpeg_decompress_struct& info, PixelLayout layout) {
  return (*info.mem->alloc_sarray)(reinterpret_cast<j_common_ptr>(&info), JPOOL_IMAGE,
                                   info.output_width * static_cast<JDIMENSION>(bytes_of(layout)), 1);
}

bool decode(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file, const PixelTarget& target,
            std::vector<uint8_t>& out) {
  if (setjmp(state.leave) != 0 || !begin_jpeg(info, state, file)) {
    return false;
  }
  const PixelLayout layout = choose_layout(info);
  jpeg_start_decompress(&info);
  const JSAMPARRAY stored = new_row(info, layout);
  const size_t row = static_cast<size_t>(info.output_width) * static_cast<size_t>(target.channels);
  out.resize(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    read_row(info, layout, target, stored, out.data() + row * info.output_scanline);
  }
  jpeg_finish_decompress(&info);
  return true;
}

// Whether all components of the part keep its least size if `eighths` of 8 pixels are decoded along each side. Colours
// with fewer samples in one direction alone (4:2:2, 4:4:0, 4:1:1) have fewer of them than pixels, since libjpeg decodes
// 8 x 8 samples to as many in both directions; it takes more of them, up to all 8, if both directions have fewer.
bool keeps_least_size(const jpeg_decompress_struct& info, const PicturePart& part, int eighths) {
  for (int c = 0; c < info.num_components; ++c) {
    const int across = info.comp_info[c].h_samp_factor;
    const int down = info.comp_info[c].v_samp_factor;
    int samples = eighths;
    while (samples < DCTSIZE && info.max_h_samp_factor * eighths % (across * samples * 2) == 0 &&
           info.max_v_samp_factor * eighths % (down * samples * 2) == 0) {
      samples *= 2;
    }
    if (part.box.height * samples * down < static_cast<double>(part.least_height * DCTSIZE * info.max_v_samp_factor) ||
        part.box.width * samples * across < static_cast<double>(part.least_width * DCTSIZE * info.max_h_samp_factor)) {
      return false;
    }
  }
  return true;
}

// Chooses how many of 8 pixels are decoded along each side. Only powers of two have fast code in libjpeg-turbo.
unsigned pixels_of_eight(const jpeg_decompress_struct& info, const PicturePart& part) {
  int eighths = DCTSIZE;
  if (part.least_height > 0 && part.least_width > 0) {
    while (eighths > 1 && keeps_least_size(info, part, eighths / 2)) {
      eighths /= 2;
    }
  }
  return static_cast<unsigned>(eighths);
}

// The rows and columns of the output that are decoded: [begin, end).
struct Range {
  JDIMENSION begin;
  JDIMENSION end;
};

Range pixels_under(double begin, double length, JDIMENSION size) {
  return {static_cast<JDIMENSION>(begin), std::min(size, static_cast<JDIMENSION>(std::ceil(begin + length)))};
}

// Leaves out columns at both sides. One block more is decoded on each side, since the colours of a pixel are
// interpolated between those of its neighbours. Returns the first column that is decoded.
JDIMENSION crop_columns(jpeg_decompress_struct& info, const Range& columns) {
  const JDIMENSION block = static_cast<JDIMENSION>(info.max_h_samp_factor * info.min_DCT_scaled_size);
  JDIMENSION begin = columns.begin - std::min(columns.begin, block);
  JDIMENSION width = std::min(info.output_width, columns.end + block) - begin;
  if (width < info.output_width) {
    jpeg_crop_scanline(&info, &begin, &width);
    return begin;
  }
  return 0;
}

// Reads the rest of the file, so that damage in it is found. Files of several scans have been read already. `spare`:
// memory for a row.
void read_rest(jpeg_decompress_struct& info, PixelLayout layout, const PixelTarget& target, JSAMPARRAY stored,
               uint8_t* spare) {
  if (jpeg_has_multiple_scans(&info) != FALSE) {
    return;
  }
  if (info.output_scanline < info.output_height) {
    // Skipping to the end would leave the last rows unread.
    jpeg_skip_scanlines(&info, info.output_height - 1 - info.output_scanline);
    read_row(info, layout, target, stored, spare);
  }
  jpeg_finish_decompress(&info);
}

bool decode_part(jpeg_decompress_struct& info, JpegState& state, std::span<const std::byte> file,
                 const PixelTarget& target, const PicturePart& part, std::vector<uint8_t>& out, JpegPart& made) {
  if (setjmp(state.leave) != 0 || !begin_jpeg(info, state, file)) {
    return false;
  }
  const PixelLayout layout = choose_layout(info);
  info.scale_num = pixels_of_eight(info, part);
  info.scale_denom = 8;
  const double scale = info.scale_num / 8.0;
  jpeg_start_decompress(&info);
  const Range rows = pixels_under(part.box.top * scale, part.box.height * scale, info.output_height);
  const Range columns = pixels_under(part.box.left * scale, part.box.width * scale, info.output_width);
  const JDIMENSION left = crop_columns(info, columns);
  const JSAMPARRAY stored = new_row(info, layout);
  const size_t row = static_cast<size_t>(info.output_width) * static_cast<size_t>(target.channels);
  out.resize(row * (rows.end - rows.begin + 1));  // the last row is the spare one of read_rest
  jpeg_skip_scanlines(&info, rows.begin);
  while (info.output_scanline < rows.end) {
    read_row(info, layout, target, stored, out.data() + row * (info.output_scanline - rows.begin));
  }
  made = {.height = rows.end - rows.begin,
          .width = info.output_width,
          .box = {part.box.top * scale - rows.begin, part.box.left * scale - left, part.box.height * scale,
                  part.box.width * scale}};
  read_rest(info, layout, target, stored, out.data() + row * (rows.end - rows.begin));
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

Result<JpegPart> decode_jpeg_part(std::span<const std::byte> file, const PixelTarget& target, const PicturePart& part,
                                  std::vector<uint8_t>& out) {
  JpegPart made;
  XRUN_TRY(with_jpeg([&](auto& info, auto& state) { return decode_part(info, state, file, target, part, out, made); }));
  return made;
}

}  // namespace xrun::runtime
