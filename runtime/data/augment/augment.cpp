// Tests: tests/runtime/data/augment/transform_test.cpp
#include "runtime/data/augment/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "runtime/data/augment/column_stages.h"
#include "runtime/data/augment/decode_stage.h"
#include "runtime/data/augment/mixing.h"
#include "runtime/data/augment/picture_stages.h"
#include "runtime/data/augment/rand_augment.h"
#include "runtime/data/augment/rectangle.h"

namespace xrun::runtime {
namespace {

using Step = AugmentStep;

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

// A stage whose step has the arguments of the call unchanged; the members below are the names of these arguments.
struct PlainStage {
  std::string_view name;
  Status (*run)(const Step& step, AugmentScratch& scratch, const DrawKey& key);
  std::string_view size = {};
  std::string_view extra = {};
  int64_t otherwise = 0;  // default value of the argument `extra`
  std::array<std::string_view, 4> a = {};
};

constexpr PlainStage kPlainStages[] = {
    {"random_crop", run_random_crop, "size", "pad"},
    {"center_crop", run_center_crop, "size"},
    {"random_flip", run_flip},
    {.name = "color_jitter", .run = run_color_jitter, .a = {"brightness", "contrast", "saturation"}},
    {"as_index", run_as_index, "classes", "first"},
    {"as_class", run_as_class},
    {"columns", run_columns},
    {"column", run_column},
    {"standardize", run_standardize},
    {.name = "random_affine", .run = run_affine, .a = {"rotate", "scale", "shear", "shift"}},
    {.name = "random_stroke", .run = run_stroke, .a = {"w"}},
    {.name = "random_blur", .run = run_blur, .a = {"p"}},
    {.name = "random_noise", .run = run_noise, .a = {"sigma"}},
    {"mixup", run_mixing},
    {"cutmix", run_mixing},
};

// Returns element i of a field as f64.
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
        // Rows of numbers (csv) and single numbers are short, so they are converted one by one.
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
                             ? "labels begin at 0; if -1 stands for no label, put `ignore(-1)` before `as_index`, or "
                               "at the end of a binding without it: label = label -> ignore(-1)"
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

namespace {

// The values of a list, or `otherwise` if it is absent.
std::vector<double> values_or(const Attrs& args, std::string_view name, std::vector<double> otherwise) {
  return args.has(name) ? args.reals(name) : std::move(otherwise);
}

// The ends of an interval; a single value is `low` and the end `high` stays. Without the argument, `otherwise`.
std::vector<double> ends_of(const Attrs& args, std::string_view name, const std::vector<double>& otherwise) {
  auto ends = values_or(args, name, otherwise);
  if (ends.size() == 1) {
    ends.push_back(otherwise[1]);
  }
  return ends;
}

// The interval ±v of a single value, or the interval itself.
std::vector<double> around_zero(const Attrs& args, std::string_view name) {
  auto ends = values_or(args, name, {0});
  return ends.size() == 1 ? std::vector<double>{-ends[0], ends[0]} : ends;
}

void add(std::vector<float>& to, const std::vector<double>& values) {
  to.insert(to.end(), values.begin(), values.end());
}

// Makes the step of a stage that has the arguments of torchvision.
Step torch_step(const CallSpec& call) {
  const Attrs& args = call.args;
  if (call.name == "rand_augment") {
    return {.run = run_rand_augment,
            .a = {static_cast<float>(args.real("fill", 0))},
            .size = args.integer("ops"),
            .extra = args.integer("magnitude")};
  }
  if (call.name == "random_resized_crop") {
    Step step{.run = run_resized_crop, .a = floats(ends_of(args, "area", {0.08, 1})), .size = args.integer("size")};
    add(step.a, values_or(args, "ratio", {3.0 / 4, 4.0 / 3}));
    return step;
  }
  if (call.name == "random_erasing") {
    Step step{.run = run_erasing, .a = {static_cast<float>(args.real("p"))}};
    add(step.a, values_or(args, "area", {0.02, 0.33}));
    add(step.a, values_or(args, "ratio", {0.3, 3.3}));
    step.b = args.flag("noise", false) ? std::vector<float>() : floats(values_or(args, "value", {0}));
    return step;
  }
  if (call.name == "blur") {
    Step step{.run = run_gaussian_blur, .a = {static_cast<float>(args.real("p"))}, .size = args.integer("kernel")};
    auto sigma = values_or(args, "sigma", {0.1, 2});
    add(step.a, {sigma.front(), sigma.back()});
    return step;
  }
  // affine: the intervals of the angle in degrees, the shifts as shares of the size, scale and shears in degrees.
  const auto shift = values_or(args, "translate", {0});
  const auto scale = values_or(args, "scale", {1});
  auto shear = around_zero(args, "shear");
  shear.resize(4, 0);
  Step step{.run = run_torch_affine, .a = floats(around_zero(args, "degrees"))};
  add(step.a, {shift.front(), shift.back(), scale.front(), scale.back()});
  add(step.a, shear);
  add(step.a, {args.real("fill", 0)});
  return step;
}

}  // namespace

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
            .extra = args.integer("channels", 3),
            .height = args.has("size") ? picture_sides(args).first : 0,
            .width = args.has("size") ? picture_sides(args).second : 0,
            .fast = args.flag("fast", false)};
  }
  if (call.name == "resize") {
    return {.run = run_resize,
            .height = args.has("size") ? picture_sides(args).first : 0,
            .width = args.has("size") ? picture_sides(args).second : 0,
            .shorter = args.integer("shorter", 0),
            .method = {.filter = args.has("filter") && args.text("filter") == "bicubic" ? ResizeFilter::kBicubic
                                                                                        : ResizeFilter::kBilinear,
                       .antialias = args.flag("antialias", true)}};
  }
  if (call.name == "random_resized_crop" || call.name == "random_erasing" || call.name == "rand_augment" ||
      call.name == "blur" || call.name == "affine") {
    return torch_step(call);
  }
  if (call.name == "ngrams") {
    return {.run = run_ngrams, .ngrams = ngram_form(args)};
  }
  if (call.name == "fill_missing") {
    return {.run = run_fill_missing, .values = {args.real("value")}};
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
