// Tests: tests/runtime/data/augment/decode_stage_test.cpp
#include "runtime/data/augment/decode_stage.h"

#include <algorithm>
#include <utility>

#include "graph/base/errors.h"
#include "graph/settings/reader_def.h"

namespace xrun::runtime {
namespace {

// How much larger than the result a picture must stay if `decode` permits an approximation. The antialiased filter then
// weighs all pixels that it would weigh in the whole picture. docs/decisions/0063-pictures-are-decoded-in-part.md has
// the differences.
constexpr int64_t kLeastRatio = 2;

// The pixel form that `decode` asks for. Its background is one grey or an RGB colour; the default is black.
PixelTarget target_of(const AugmentStep& step) {
  PixelTarget target{.channels = static_cast<int>(step.extra)};
  for (size_t c = 0; c < target.background.size() && !step.a.empty(); ++c) {
    target.background[c] = static_cast<uint8_t>(step.a[step.a.size() == 1 ? 0 : c]);
  }
  return target;
}

PictureBox whole(const PictureSize& size) {
  return {.height = static_cast<double>(size.height), .width = static_cast<double>(size.width)};
}

// Decodes the part of the encoded picture, and resizes it.
Status decode_part(AugmentScratch& scratch, const PictureBox& box, int height, int width, const ResizeMethod& method) {
  const AugmentStep& decode = *scratch.decode;
  PicturePart part{.box = box};
  if (decode.fast) {
    part.least_height = kLeastRatio * height;
    part.least_width = kLeastRatio * width;
  }
  XRUN_ASSIGN(const DecodedPart decoded,
              decode_picture_part(scratch.source.bytes, scratch.header, target_of(decode), part, scratch.decoded));
  scratch.form = AugmentScratch::kPicture;
  scratch.end_part("decode");
  scratch.picture.reshape(decoded.size.channels, height, width);
  if (decoded.box.height == height && decoded.box.width == width) {
    const ptrdiff_t row = ptrdiff_t{decoded.size.width} * decoded.size.channels;
    load_interleaved(scratch.decoded.data() + static_cast<ptrdiff_t>(decoded.box.top) * row +
                         static_cast<ptrdiff_t>(decoded.box.left) * decoded.size.channels,
                     row, scratch.picture);
  } else {
    // A large decoded picture is never converted to f32 as a whole, which would take four times its bytes.
    scratch.resizer.resize(scratch.decoded.data(), decoded.size.width, decoded.box, method, scratch.picture);
    scratch.end_part("resize");
  }
  return {};
}

}  // namespace

Result<PictureSize> picture_size(AugmentScratch& scratch) {
  if (scratch.form != AugmentScratch::kFile) {
    load_picture(scratch);
    return PictureSize{scratch.picture.channels(), scratch.picture.height(), scratch.picture.width()};
  }
  XRUN_ASSIGN(scratch.header, read_picture_header(scratch.source.bytes));
  return PictureSize{static_cast<int>(scratch.decode->extra), static_cast<int>(scratch.header.height),
                     static_cast<int>(scratch.header.width)};
}

Status take_part(AugmentScratch& scratch, const PictureBox& box, int64_t to_height, int64_t to_width,
                 const ResizeMethod& method) {
  const auto height = static_cast<int>(to_height);
  const auto width = static_cast<int>(to_width);
  if (scratch.form == AugmentScratch::kFile) {
    return decode_part(scratch, box, height, width, method);
  }
  const auto fits = [&](double h, double w) { return scratch.picture.height() == h && scratch.picture.width() == w; };
  if (!fits(box.height, box.width)) {
    scratch.other.reshape(scratch.picture.channels(), static_cast<int>(box.height), static_cast<int>(box.width));
    crop(scratch.picture, static_cast<int>(box.top), static_cast<int>(box.left), scratch.other);
    std::swap(scratch.picture, scratch.other);
  }
  if (!fits(height, width)) {
    scratch.other.reshape(scratch.picture.channels(), height, width);
    scratch.resizer.resize(scratch.picture, method, scratch.other);
    std::swap(scratch.picture, scratch.other);
    scratch.end_part("resize");
  }
  return {};
}

Status decode_whole(AugmentScratch& scratch) {
  if (scratch.form != AugmentScratch::kFile) {
    return {};
  }
  XRUN_ASSIGN(const PictureSize size, picture_size(scratch));
  return take_part(scratch, whole(size), size.height, size.width);
}

std::pair<int64_t, int64_t> size_after(const AugmentStep& step, int64_t height, int64_t width) {
  if (step.shorter > 0) {
    // The longer side is cut off to a whole number, as in torchvision.
    return height <= width ? std::pair(step.shorter, step.shorter * width / height)
                           : std::pair(step.shorter * height / width, step.shorter);
  }
  if (step.height > 0) {
    return {step.height, step.width};
  }
  return step.size > 0 ? std::pair(step.size, step.size) : std::pair(height, width);
}

Status run_decode(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  scratch.form = AugmentScratch::kFile;
  scratch.decode = &step;
  if (step.defers) {
    return {};
  }
  XRUN_ASSIGN(const PictureSize size, picture_size(scratch));
  const auto [height, width] = size_after(step, size.height, size.width);
  return take_part(scratch, whole(size), height, width, step.method);
}

Status run_resize(const AugmentStep& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const PictureSize size, picture_size(scratch));
  const auto [height, width] = size_after(step, size.height, size.width);
  if (std::max(height, width) > kLargestSide || height * width > kMostPixels) {
    XRUN_TRY(decode_whole(scratch));  // a broken file is reported as such
    return content_error(
        "XG0412",
        {"a picture of {} x {} pixels (width x height) would be resized to {} x {}, which is too large", size.width,
         size.height, width, height},
        "leave the picture out, crop it, or give both sides: resize([256, 256])");
  }
  return take_part(scratch, whole(size), height, width, step.method);
}

}  // namespace xrun::runtime
