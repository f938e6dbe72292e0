// Tests: tests/runtime/formats/pictures/decode_test.cpp
#include "runtime/formats/pictures/png.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <new>
#include <png.h>

namespace xrun::runtime {
namespace {

struct PngState {
  std::span<const std::byte> file;
  size_t at = 0;
  PictureHeader header;
  std::vector<uint8_t> stored;  // a row, or the whole picture if it is interlaced
  std::jmp_buf leave;
  char message[128] = "";
};

void leave_with(PngState& state, const char* message) {
  std::snprintf(state.message, sizeof state.message, "%s", message);
  std::longjmp(state.leave, 1);
}

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  leave_with(*static_cast<PngState*>(png_get_error_ptr(png)), message);
  std::abort();  // not reached: libpng requires a function that does not return
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t count) {
  auto* state = static_cast<PngState*>(png_get_io_ptr(png));
  if (count > state->file.size() - state->at) {
    png_error(png, "cut short");
  }
  std::memcpy(to, state->file.data() + state->at, count);
  state->at += count;
}

void read_info(png_structp png, png_infop info, PngState& state) {
  png_set_read_fn(png, &state, on_read);
  png_set_user_limits(png, static_cast<png_uint_32>(kMostPixels), static_cast<png_uint_32>(kMostPixels));
  // The number -1 means all chunks that libpng does not need for the stored values. They are ignored.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, info);
  state.header.height = png_get_image_height(png, info);
  state.header.width = png_get_image_width(png, info);
  if (state.header.width > kMostPixels / state.header.height) {
    png_error(png, "too many pixels");
  }
}

// Makes libpng expand palettes, grey below 8 bits and transparent colours to bytes. Returns the resulting layout.
PixelLayout begin_rows(png_structp png, png_infop info, int& passes) {
  png_set_expand(png);
  png_set_scale_16(png);
  passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  constexpr PixelLayout kLayouts[] = {PixelLayout::kGrey, PixelLayout::kGreyAlpha, PixelLayout::kRgb,
                                      PixelLayout::kRgba};
  return kLayouts[png_get_channels(png, info) - 1];
}

// read_header and decode have no local object with a destructor, since libpng leaves them by longjmp.
bool read_header(png_structp png, png_infop info, PngState& state) {
  if (setjmp(state.leave) != 0) {
    return false;
  }
  read_info(png, info, state);
  if (png_get_interlace_type(png, info) != PNG_INTERLACE_NONE) {
    int passes = 0;
    const PixelLayout layout = begin_rows(png, info, passes);
    state.header.held = state.header.height * state.header.width * bytes_of(layout);
  }
  return true;
}

bool decode(png_structp png, png_infop info, PngState& state, const PixelTarget& target, std::vector<uint8_t>& out) {
  if (setjmp(state.leave) != 0) {
    return false;
  }
  read_info(png, info, state);
  int passes = 0;
  const PixelLayout layout = begin_rows(png, info, passes);
  const auto width = static_cast<size_t>(state.header.width);
  const auto height = static_cast<size_t>(state.header.height);
  const size_t stored_row = width * static_cast<size_t>(bytes_of(layout));
  const size_t row = width * static_cast<size_t>(target.channels);
  out.resize(row * height);
  state.stored.resize(passes == 1 ? stored_row : stored_row * height);
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t y = 0; y < height; ++y) {
      uint8_t* const stored = state.stored.data() + (passes == 1 ? 0 : stored_row * y);
      png_read_row(png, stored, nullptr);
      if (pass == passes - 1) {
        convert_row(layout, stored, width, target, out.data() + row * y);
      }
    }
  }
  return true;
}

// Calls `use` with libpng's state. If `use` returns false, returns an error.
template <typename Use>
Result<PictureHeader> with_png(std::span<const std::byte> file, Use use) {
  PngState state{.file = file};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, on_error, on_warning);
  png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
  if (info == nullptr) {
    png_destroy_read_struct(&png, nullptr, nullptr);
    throw std::bad_alloc();
  }
  const bool good = use(png, info, state);
  png_destroy_read_struct(&png, &info, nullptr);
  if (!good) {
    return broken_picture(fmt::format("a broken PNG: {}", state.message));
  }
  return state.header;
}

}  // namespace

Result<PictureHeader> read_png_header(std::span<const std::byte> file) { return with_png(file, read_header); }

Result<PictureHeader> decode_png(std::span<const std::byte> file, const PixelTarget& target,
                                 std::vector<uint8_t>& out) {
  return with_png(file, [&](auto* png, auto* info, auto& state) { return decode(png, info, state, target, out); });
}

Result<std::vector<std::byte>> encode_png(std::span<const uint8_t> pixels, int height, int width) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB;
  // The first call counts the bytes of the file, the second one writes them.
  png_alloc_size_t bytes = 0;
  std::vector<std::byte> file;
  bool good = png_image_write_to_memory(&image, nullptr, &bytes, 0, pixels.data(), 0, nullptr) != 0;
  if (good) {
    file.resize(bytes);
    good = png_image_write_to_memory(&image, file.data(), &bytes, 0, pixels.data(), 0, nullptr) != 0;
  }
  if (!good) {
    return Error{ErrorKind::kWorld, "XG0901",
                 fmt::format("a PNG of {} x {} cannot be made: {}", width, height, image.message),
                 "ask for fewer samples"};
  }
  file.resize(bytes);
  return file;
}

}  // namespace xrun::runtime
