// Tests: tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/augment/augment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/data/augment/ignore.h"
#include "runtime/data/augment/jitter.h"
#include "runtime/formats/decode.h"

namespace xrun::runtime {
namespace {

using Step = AugmentStep;

RandomStream stream_of(const Step& step, const DrawKey& key) {
  return RandomStream(key.seed, key.epoch, key.sample, step.stage);
}

// Gives the scratch's other picture the shape of the working picture, and returns it.
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

// The pixels that `decode` asks for. Its background is one grey or an RGB colour; the default is black.
PixelTarget target_of(const Step& step) {
  PixelTarget target{.channels = static_cast<int>(step.extra)};
  for (size_t c = 0; c < target.background.size() && !step.a.empty(); ++c) {
    target.background[c] = static_cast<uint8_t>(step.a[step.a.size() == 1 ? 0 : c]);
  }
  return target;
}

Status run_decode(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const PictureSize size, decode_picture(scratch.source.bytes, target_of(step), scratch.decoded));
  scratch.form = AugmentScratch::kPicture;
  const auto wanted = static_cast<int>(step.size);
  if (wanted > 0 && (size.height != wanted || size.width != wanted)) {
    // The large picture is never converted to f32 as a whole, which would take four times its bytes.
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

// The offset of a centred square if `free` pixels are left over: half of them, rounded to even, as in torchvision. A
// negative number is padding; torchvision puts the smaller half of it first.
int64_t middle(int64_t free) { return free / 2 + (free > 0 && free % 4 == 3 ? 1 : 0); }

Status crop_to(const Step& step, AugmentScratch& scratch, bool random, const DrawKey& key) {
  load_picture(scratch);
  const int64_t pad = step.extra;
  const int64_t free_y = scratch.picture.height() + 2 * pad - step.size;
  const int64_t free_x = scratch.picture.width() + 2 * pad - step.size;
  if (free_y < 0 || free_x < 0) {
    return content_error("XG0404",
                         {"a picture of {} x {} is too small for a square of {}", scratch.picture.height(),
                          scratch.picture.width(), step.size},
                         "`resize` first");
  }
  int64_t top = pad + middle(free_y - 2 * pad);
  int64_t left = pad + middle(free_x - 2 * pad);
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

struct Rectangle {
  int64_t top, left, height, width;
};

// Draws the rectangle of a random_resized_crop. If no attempt fits, returns the largest square in the middle.
Rectangle draw_rectangle(const Picture& picture, double least, const RandomStream* stream) {
  constexpr uint64_t kAttempts = 10;
  constexpr uint64_t kDraws = 4;
  const int64_t h = picture.height();
  const int64_t w = picture.width();
  for (uint64_t i = 0; stream != nullptr && i < kAttempts; ++i) {
    const auto uniform = [&](uint64_t draw) { return static_cast<double>(stream->uniform(i * kDraws + draw)); };
    const double area = static_cast<double>(h * w) * (least + (1 - least) * uniform(0));
    const double ratio = std::exp((2 * uniform(1) - 1) * std::log(4.0 / 3.0));
    const auto width = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
    const auto height = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (width >= 1 && height >= 1 && width <= w && height <= h) {
      return {static_cast<int64_t>(stream->below(i * kDraws + 2, static_cast<uint64_t>(h - height) + 1)),
              static_cast<int64_t>(stream->below(i * kDraws + 3, static_cast<uint64_t>(w - width) + 1)), height, width};
    }
  }
  const int64_t side = std::min(h, w);
  return {middle(h - side), middle(w - side), side, side};
}

Status run_resized_crop(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  load_picture(scratch);
  const RandomStream stream = stream_of(step, key);
  const Rectangle r = draw_rectangle(scratch.picture, static_cast<double>(step.a[0]), key.training ? &stream : nullptr);
  scratch.other.reshape(scratch.picture.channels(), static_cast<int>(r.height), static_cast<int>(r.width));
  crop(scratch.picture, static_cast<int>(r.top), static_cast<int>(r.left), scratch.other);
  std::swap(scratch.picture, scratch.other);
  resize_to(scratch, static_cast<int>(step.size));
  return {};
}

Status run_color_jitter(const Step& step, AugmentScratch& scratch, const DrawKey& key) {
  if (key.training) {
    load_picture(scratch);
    const auto draws = stream_of(step, key).block(0);
    const auto factor = [&](size_t i) { return 1 + (2 * to_unit(draws[i]) - 1) * step.a[i]; };
    jitter(scratch.picture, factor(0), factor(1), factor(2));
  }
  return {};
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
  XRUN_CHECK(scratch.form == AugmentScratch::kSource && row.dtype == DType::kF64,
             "a column of something that is not a table");
  if (end > row.dims[0]) {
    return content_error("XG0404", {"a row of {} columns has no column {}", row.dims[0], end - 1},
                         "columns are counted from 0");
  }
  return reinterpret_cast<const double*>(row.bytes.data());
}

// The error for a cell without a usable number: the position of its column and its value.
Error unusable(const Step& step, int64_t column, double value) {
  const auto at = static_cast<size_t>(column - step.size);
  const std::string name = at < step.names.size() ? fmt::format(" (`{}`)", step.names[at]) : "";
  return content_error(
      "XG0412",
      {"column {}{} is {}", column, name, std::isnan(value) ? "a missing value" : "infinite or more than f32 can hold"},
      std::isnan(value) ? "fill the cell in, remove the line, or raise `max_bad`"
                        : "correct the cell, remove the line, or raise `max_bad`");
}

bool is_usable(const Step& step, double value) { return std::isfinite(value) || (step.missing && std::isnan(value)); }

Status run_columns(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const double* row, row_of(scratch, step.extra));
  scratch.row.assign(row + step.size, row + step.extra);
  const auto bad = std::ranges::find_if_not(scratch.row, [&](double x) { return is_usable(step, x); });
  if (bad != scratch.row.end()) {
    return unusable(step, step.size + (bad - scratch.row.begin()), *bad);
  }
  scratch.form = AugmentScratch::kRow;
  return {};
}

Status run_column(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  XRUN_ASSIGN(const double* row, row_of(scratch, step.size + 1));
  scratch.number = row[step.size];
  if (!is_usable(step, scratch.number)) {
    return unusable(step, step.size, scratch.number);
  }
  scratch.form = AugmentScratch::kNumber;
  return {};
}

// Does nothing: the reader has already replaced the column's texts by their numbers.
Status run_as_class(const Step&, AugmentScratch&, const DrawKey&) { return {}; }

// The class of a number if classes are counted from `first`.
Result<double> class_of(double number, int64_t first, int64_t classes) {
  if (number == kNoLabel) {
    return number;
  }
  const double made = number - static_cast<double>(first);
  Status fits = check_label(made, classes);
  if (!fits.ok() && first != 0 && made == std::floor(made)) {
    Error error = content_error(
        "XG0402",
        {"label {} does not fit {} classes that begin at {}", number, format_with_underscores(classes), first},
        made < 0 ? fmt::format("labels begin at {}: correct the label, or give another `first`", first)
                 : std::string());
    error.label = fmt::format("labels must be whole numbers in {}..{}", first, first + classes - 1);
    return error;
  }
  XRUN_TRY(fits);
  return made;
}

// Checks that f32 holds the number exactly, since a stage has converted it to f32.
Status check_exact(double number) {
  constexpr double kMostExact = 1 << 24;
  if (std::abs(number) < kMostExact || number == kNoLabel) {
    return {};
  }
  return content_error("XG0402",
                       {"label {} was converted to f32, which rounds whole numbers from 16 777 216 on", number},
                       "put `as_index` directly after `column` or `columns`");
}

Status run_as_index(const Step& step, AugmentScratch& scratch, const DrawKey&) {
  const bool was_f32 = scratch.form == AugmentScratch::kPicture;
  const bool is_row = was_f32 || scratch.form == AugmentScratch::kRow ||
                      (scratch.form == AugmentScratch::kSource && scratch.source.rank > 0);
  if (is_row) {
    load_row(scratch);
    for (double& number : scratch.row) {
      XRUN_TRY(was_f32 ? check_exact(number) : Status());
      XRUN_ASSIGN(number, class_of(number, step.extra, step.size));
    }
    return {};
  }
  XRUN_ASSIGN(scratch.number, class_of(number_of(scratch), step.extra, step.size));
  scratch.form = AugmentScratch::kNumber;
  return {};
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

// A stage whose step takes its arguments unchanged; the members are the names of these arguments.
struct PlainStage {
  std::string_view name;
  Status (*run)(const Step& step, AugmentScratch& scratch, const DrawKey& key);
  std::string_view size = {};
  std::string_view extra = {};
  int64_t otherwise = 0;  // default of `extra`
  std::array<std::string_view, 4> a = {};
};

constexpr PlainStage kPlainStages[] = {
    {"resize", run_resize, "size"},
    {"random_crop", run_random_crop, "size", "pad"},
    {"center_crop", run_center_crop, "size"},
    {"random_flip", run_flip},
    {.name = "color_jitter", .run = run_color_jitter, .a = {"brightness", "contrast", "saturation"}},
    {"as_index", run_as_index, "classes", "first"},
    {"as_class", run_as_class},
    {"column", run_column, "index"},
    {.name = "random_affine", .run = run_affine, .a = {"rotate", "scale", "shear", "shift"}},
    {.name = "random_stroke", .run = run_stroke, .a = {"w"}},
    {.name = "random_blur", .run = run_blur, .a = {"p"}},
    {.name = "random_noise", .run = run_noise, .a = {"sigma"}},
};

// Element i of a field.
double number_at(const FieldValue& value, int64_t i) {
  const auto read = [&]<typename T>(T number) {
    std::memcpy(&number, value.bytes.data() + i * static_cast<int64_t>(sizeof number), sizeof number);
    return static_cast<double>(number);
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

}  // namespace

void load_picture(AugmentScratch& scratch) {
  if (scratch.form == AugmentScratch::kPicture) {
    return;
  }
  const FieldValue& value = scratch.source;
  if (scratch.form == AugmentScratch::kNumber) {
    scratch.picture.reshape(1, 1, 1);
    *scratch.picture.row(0, 0) = static_cast<float>(scratch.number);
  } else if (scratch.form == AugmentScratch::kRow) {
    scratch.picture.reshape(1, 1, static_cast<int>(scratch.row.size()));
    std::ranges::transform(scratch.row, scratch.picture.row(0, 0), [](double x) { return static_cast<float>(x); });
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
      default:
        // Rows of numbers (csv) and single numbers are short.
        for (int64_t i = 0; i < elements; ++i) {
          scratch.picture.row(0, static_cast<int>(i / last))[i % last] = static_cast<float>(number_at(value, i));
        }
    }
  }
  scratch.form = AugmentScratch::kPicture;
}

void load_row(AugmentScratch& scratch) {
  if (scratch.form == AugmentScratch::kRow) {
    return;
  }
  if (scratch.form == AugmentScratch::kNumber) {
    scratch.row.assign(1, scratch.number);
  } else if (scratch.form == AugmentScratch::kSource) {
    scratch.row.resize(static_cast<size_t>(scratch.source.elements()));
    for (size_t i = 0; i < scratch.row.size(); ++i) {
      scratch.row[i] = number_at(scratch.source, static_cast<int64_t>(i));
    }
  } else {
    const Picture& picture = scratch.picture;
    scratch.row.clear();
    for (int c = 0; c < picture.channels(); ++c) {
      for (int y = 0; y < picture.height(); ++y) {
        scratch.row.insert(scratch.row.end(), picture.row(c, y), picture.row(c, y) + picture.width());
      }
    }
  }
  scratch.form = AugmentScratch::kRow;
}

double number_of(const AugmentScratch& scratch) {
  if (scratch.form == AugmentScratch::kNumber) {
    return scratch.number;
  }
  if (scratch.form == AugmentScratch::kPicture) {
    return *scratch.picture.row(0, 0);
  }
  if (scratch.form == AugmentScratch::kRow) {
    return scratch.row[0];
  }
  return number_at(scratch.source, 0);
}

Status check_label(double number, int64_t classes) {
  if (number != std::floor(number)) {
    return content_error("XG0402", {"label {} is not a whole number", number},
                         "a label is the whole number of its class: correct it, or bind another column");
  }
  if (number < 0) {
    return content_error("XG0402", {"label {} is below 0", number},
                         number == -1
                             ? "labels begin at 0; if -1 stands for no label, put `ignore(-1)` before `as_index`"
                             : "labels begin at 0: correct the label, or name the first one: as_index(.., first=..)");
  }
  if (classes > 0 && number >= static_cast<double>(classes)) {
    Error error =
        content_error("XG0402", {"label {} does not fit {} classes", number, format_with_underscores(classes)}, "");
    error.label = fmt::format("labels must be whole numbers in 0..{}", classes - 1);
    return error;
  }
  return {};
}

Step augment_step(const CallSpec& call) {
  const Attrs& args = call.args;
  if (call.name == "scale") {
    return {.run = run_scale_shift, .a = {static_cast<float>(args.real("k"))}, .b = {0}};
  }
  if (call.name == "normalize") {
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
  if (call.name == "decode") {
    return {.run = run_decode,
            .a = args.has("background") ? floats(args.reals("background")) : std::vector<float>(),
            .size = args.integer("size", 0),
            .extra = args.integer("channels", 3)};
  }
  if (call.name == "random_resized_crop") {
    return {.run = run_resized_crop, .a = {static_cast<float>(args.real("area", 0.08))}, .size = args.integer("size")};
  }
  if (call.name == "columns") {
    return {.run = run_columns, .size = args.integers("range")[0], .extra = args.integers("range")[1]};
  }
  const auto stage = std::ranges::find(kPlainStages, call.name, &PlainStage::name);
  if (stage == std::end(kPlainStages)) {
    return {};
  }
  Step step{
      .run = stage->run, .size = args.integer(stage->size, 0), .extra = args.integer(stage->extra, stage->otherwise)};
  for (const std::string_view name : stage->a) {
    if (!name.empty()) {
      step.a.push_back(static_cast<float>(args.real(name)));
    }
  }
  return step;
}

}  // namespace xrun::runtime
