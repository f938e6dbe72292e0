#include "runtime/data/augment.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "runtime/formats/decode.h"

namespace xrun::runtime {
namespace {

using Step = AugmentStep;

Error fault(std::string code, std::string message, std::string help) {
  return {.kind = ErrorKind::kContent, .code = std::move(code), .message = std::move(message), .help = std::move(help)};
}

RandomStream stream_of(const Step& step, const DrawKey& key) {
  return RandomStream(key.seed, key.epoch, key.sample, step.stage);
}

// The other picture in the shape of the working one.
Picture& shaped_other(AugmentScratch& scratch) {
  const Picture& picture = scratch.picture;
  scratch.other.reshape(picture.channels(), picture.height(), picture.width());
  return scratch.other;
}

void resize_to(AugmentScratch& scratch, int size) {
  if (scratch.picture.height() != size || scratch.picture.width() != size) {
    scratch.other.reshape(scratch.picture.channels(), size, size);
    scratch.resizer.resize(scratch.picture, scratch.other);
    std::swap(scratch.picture, scratch.other);
  }
}

Status run_decode(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const PictureSize size,
              decode_picture(scratch.source.bytes, static_cast<int>(step.extra), scratch.decoded));
  scratch.form = AugmentScratch::kPicture;
  const auto wanted = static_cast<int>(step.size);
  if (wanted > 0 && (size.height != wanted || size.width != wanted)) {
    // The large picture is never there as numbers, which would take four times its bytes.
    scratch.picture.reshape(size.channels, wanted, wanted);
    scratch.resizer.resize(scratch.decoded.data(), size.height, size.width, scratch.picture);
    return {};
  }
  scratch.picture.reshape(size.channels, size.height, size.width);
  load_interleaved(scratch.decoded.data(), scratch.picture);
  return {};
}

Status run_resize(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  load_picture(scratch);
  resize_to(scratch, static_cast<int>(step.size));
  return {};
}

Status crop_to(const Step& step, AugmentScratch& scratch, bool random, const DrawKey& key) {
  load_picture(scratch);
  const int64_t pad = step.extra;
  const int64_t free_y = scratch.picture.height() + 2 * pad - step.size;
  const int64_t free_x = scratch.picture.width() + 2 * pad - step.size;
  if (free_y < 0 || free_x < 0) {
    return fault("XG0404",
                 fmt::format("a picture of {} x {} is too small for a square of {}", scratch.picture.height(),
                             scratch.picture.width(), step.size),
                 "`resize` first");
  }
  int64_t top = free_y / 2;
  int64_t left = free_x / 2;
  if (random) {
    const RandomStream stream = stream_of(step, key);
    top = static_cast<int64_t>(stream.below(0, static_cast<uint64_t>(free_y) + 1));
    left = static_cast<int64_t>(stream.below(1, static_cast<uint64_t>(free_x) + 1));
  }
  scratch.other.reshape(scratch.picture.channels(), static_cast<int>(step.size), static_cast<int>(step.size));
  crop(scratch.picture, static_cast<int>(top - pad), static_cast<int>(left - pad), scratch.other);
  std::swap(scratch.picture, scratch.other);
  return {};
}

Status run_random_crop(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  return crop_to(step, scratch, key.training, key);
}
Status run_center_crop(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  return crop_to(step, scratch, false, key);
}

Status run_flip(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training && stream_of(step, key).uniform(0) < 0.5f) {
    load_picture(scratch);
    flip_horizontally(scratch.picture);
  }
  return {};
}

Status run_scale_shift(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  load_picture(scratch);
  scale_shift(scratch.picture, step.a, step.b);
  return {};
}

Status run_affine(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  load_picture(scratch);
  const RandomStream stream = stream_of(step, key);
  const auto draws = stream.block(0);
  const auto more = stream.block(1);
  const auto within = [](uint32_t bits, float reach) { return (2 * to_unit(bits) - 1) * reach; };
  const float angle = within(draws[0], step.a[0]);
  const float scale_x = 1 + within(draws[1], step.a[1]);
  const float scale_y = 1 + within(draws[2], step.a[1]);
  const float shear = within(draws[3], step.a[2]);
  // A = R(angle) · [1 shear; 0 1] · diag(sx, sy), so its inverse is diag(1/sx, 1/sy) · [1 -shear; 0 1] · R(-angle).
  const float cosine = std::cos(angle);
  const float sine = std::sin(angle);
  const Affine affine{.matrix = {(cosine + shear * sine) / scale_x, (sine - shear * cosine) / scale_x, -sine / scale_y,
                                 cosine / scale_y},
                      .shift_x = within(more[0], step.a[3]) * static_cast<float>(scratch.picture.width()),
                      .shift_y = within(more[1], step.a[3]) * static_cast<float>(scratch.picture.height())};
  warp(scratch.picture, affine, shaped_other(scratch));
  std::swap(scratch.picture, scratch.other);
  return {};
}

Status run_stroke(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    stroke(scratch.picture, stream_of(step, key).uniform(0, -step.a[0], step.a[0]), shaped_other(scratch));
    std::swap(scratch.picture, scratch.other);
  }
  return {};
}

Status run_blur(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  if (!key.training) {
    return {};
  }
  const auto draws = stream_of(step, key).block(0);
  if (to_unit(draws[0]) < step.a[0]) {
    load_picture(scratch);
    blur(scratch.picture, to_unit(draws[1]), shaped_other(scratch));
    std::swap(scratch.picture, scratch.other);
  }
  return {};
}

Status run_noise(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    add_noise(scratch.picture, step.a[0], stream_of(step, key), scratch.draws);
  }
  return {};
}

Result<const double*> row_of(const AugmentScratch& scratch, int64_t end) {
  const FieldValue& row = scratch.source;
  XRUN_CHECK(scratch.form == AugmentScratch::kSource && row.dtype == DType::kF64, "a column of what is no table");
  if (end > row.dims[0]) {
    return fault("XG0404", fmt::format("a row of {} columns has no column {}", row.dims[0], end - 1),
                 "columns are counted from 0");
  }
  return reinterpret_cast<const double*>(row.bytes.data());
}

Status run_columns(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const double* row, row_of(scratch, step.extra));
  scratch.picture.reshape(1, 1, static_cast<int>(step.extra - step.size));
  std::transform(row + step.size, row + step.extra, scratch.picture.row(0, 0),
                 [](double x) { return static_cast<float>(x); });
  scratch.form = AugmentScratch::kPicture;
  return {};
}

Status run_column(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const double* row, row_of(scratch, step.size + 1));
  scratch.number = row[step.size];
  scratch.form = AugmentScratch::kNumber;
  return {};
}

Status run_as_index(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  scratch.number = number_of(scratch);
  scratch.form = AugmentScratch::kNumber;
  return check_label(scratch.number, step.size);
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

void load_picture(AugmentScratch& scratch) {
  if (scratch.form == AugmentScratch::kPicture) {
    return;
  }
  const FieldValue& value = scratch.source;
  if (scratch.form == AugmentScratch::kNumber) {
    scratch.picture.reshape(1, 1, 1);
    *scratch.picture.row(0, 0) = static_cast<float>(scratch.number);
  } else {
    const bool is_picture = value.rank == 3;
    const int64_t last = value.rank == 0 ? 1 : value.dims[static_cast<size_t>(value.rank - 1)];
    const int64_t elements = value.elements();
    const int64_t channels = is_picture ? value.dims[0] : 1;
    scratch.picture.reshape(static_cast<int>(channels), static_cast<int>(elements / last / channels),
                            static_cast<int>(last));
    switch (value.dtype) {
      case DType::kU8:
        load_planar(reinterpret_cast<const uint8_t*>(value.bytes.data()), scratch.picture);
        break;
      case DType::kF32:
        load_planar(reinterpret_cast<const float*>(value.bytes.data()), scratch.picture);
        break;
      default: {
        // Rows of numbers (csv) and single numbers are short.
        for (int64_t i = 0; i < elements; ++i) {
          double number = 0;
          if (value.dtype == DType::kF64) {
            std::memcpy(&number, value.bytes.data() + i * 8, 8);
          } else if (value.dtype == DType::kI64) {
            int64_t whole = 0;
            std::memcpy(&whole, value.bytes.data() + i * 8, 8);
            number = static_cast<double>(whole);
          } else {
            int32_t whole = 0;
            std::memcpy(&whole, value.bytes.data() + i * 4, 4);
            number = whole;
          }
          scratch.picture.row(0, static_cast<int>(i / last))[i % last] = static_cast<float>(number);
        }
      }
    }
  }
  scratch.form = AugmentScratch::kPicture;
}

double number_of(const AugmentScratch& scratch) {
  if (scratch.form == AugmentScratch::kNumber) {
    return scratch.number;
  }
  if (scratch.form == AugmentScratch::kPicture) {
    return *scratch.picture.row(0, 0);
  }
  const FieldValue& value = scratch.source;
  const auto read = [&]<typename T>(T whole) {
    std::memcpy(&whole, value.bytes.data(), sizeof whole);
    return static_cast<double>(whole);
  };
  switch (value.dtype) {
    case DType::kI64:
      return read(int64_t{});
    case DType::kI32:
      return read(int32_t{});
    case DType::kF64:
      return read(double{});
    case DType::kF32:
      return read(float{});
    default:
      return read(uint8_t{});
  }
}

Status check_label(double number, int64_t classes) {
  if (number != std::floor(number) || number < 0 || (classes > 0 && number >= static_cast<double>(classes))) {
    if (classes == 0) {
      return fault("XG0402", fmt::format("label {} is no class number", number),
                   "labels must be whole numbers from 0 on");
    }
    return fault("XG0402", fmt::format("label {} does not fit {} classes", number, format_with_underscores(classes)),
                 fmt::format("labels must be whole numbers in 0..{}", classes - 1));
  }
  return {};
}

Step augment_step(const CallSpec& call) {
  const Attrs& args = call.args;
  const auto real = [&](std::string_view name) { return static_cast<float>(args.real(name)); };
  const std::string_view name = call.name;
  if (name == "decode") {
    return {.run = run_decode, .size = args.integer("size", 0), .extra = args.integer("channels", 3)};
  }
  if (name == "resize") {
    return {.run = run_resize, .size = args.integer("size")};
  }
  if (name == "random_crop") {
    return {.run = run_random_crop, .size = args.integer("size"), .extra = args.integer("pad", 0)};
  }
  if (name == "center_crop") {
    return {.run = run_center_crop, .size = args.integer("size")};
  }
  if (name == "random_flip") {
    return {.run = run_flip};
  }
  if (name == "scale") {
    return {.run = run_scale_shift, .a = {real("k")}, .b = {0}};
  }
  if (name == "normalize") {
    // (x - mean) / std = x · (1 / std) - mean / std
    const auto mean = args.reals("mean");
    const auto std = args.reals("std");
    std::vector<double> factor, offset;
    for (size_t i = 0; i < std::max(mean.size(), std.size()); ++i) {
      const double s = std[std.size() == 1 ? 0 : i];
      factor.push_back(1 / s);
      offset.push_back(-mean[mean.size() == 1 ? 0 : i] / s);
    }
    return {.run = run_scale_shift, .a = floats(factor), .b = floats(offset)};
  }
  if (name == "as_index") {
    return {.run = run_as_index, .size = args.integer("classes")};
  }
  if (name == "columns") {
    return {.run = run_columns, .size = args.integers("range")[0], .extra = args.integers("range")[1]};
  }
  if (name == "column") {
    return {.run = run_column, .size = args.integer("index")};
  }
  if (name == "random_affine") {
    return {.run = run_affine, .a = {real("rotate"), real("scale"), real("shear"), real("shift")}};
  }
  if (name == "random_stroke") {
    return {.run = run_stroke, .a = {real("w")}};
  }
  if (name == "random_blur") {
    return {.run = run_blur, .a = {real("p")}};
  }
  if (name == "random_noise") {
    return {.run = run_noise, .a = {real("sigma")}};
  }
  return {};
}

}  // namespace xrun::runtime
