// The data stages of edition 1, by name. Declared in graph/settings/reader_def.h.
// Tests: tests/runtime/data/augment/transform_test.cpp, tests/runtime/formats/pictures/decode_test.cpp
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/settings/column_types.h"
#include "graph/settings/data_arguments.h"
#include "graph/settings/picture_types.h"
#include "graph/settings/reader_def.h"

namespace xrun {
namespace {

constexpr auto kReady = Availability::kReady;

Result<TensorType> decoded(const AugmentDef&, const Field& input, const Attrs& args) {
  if (!input.encoded) {
    return content_error("XG0409", {"`decode` needs an encoded file, but `{}` is {}", input.name, to_text(input.type)},
                         "leave `decode` out: the field is decoded already");
  }
  const int64_t channels = args.integer("channels", 3);
  if (channels != 1 && channels != 3) {
    return out_of_range("channels", {"{}", channels}, "1 (grey) or 3 (RGB)");
  }
  if (const AttrValue* background = args.find("background")) {
    const auto* values = std::get_if<std::vector<int64_t>>(background);
    if (values == nullptr || (values->size() != 1 && values->size() != 3) ||
        std::ranges::any_of(*values, [](int64_t v) { return v < 0 || v > 255; })) {
      return out_of_range(
          "background",
          values == nullptr ? "not a list of whole numbers" : fmt::format("[{}]", fmt::join(*values, ", ")),
          "one number of 0 to 255, or three: background=255");
    }
  }
  if (!args.has("size")) {
    return per_sample(DType::kU8, {channels, 0, 0});
  }
  const auto [height, width] = picture_sides(args);
  return per_sample(DType::kF32, {channels, height, width});
}

Result<TensorType> resized(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  const AttrValue* filter = args.find("filter");
  if (filter != nullptr && *filter != AttrValue("bilinear") && *filter != AttrValue("bicubic")) {
    return out_of_range("filter", to_text(*filter), "\"bilinear\" or \"bicubic\"");
  }
  if (args.has("size") == args.has("shorter")) {
    return content_error("XG0413", args.has("size") ? "`resize` has both `size` and `shorter`" : "`resize` has no size",
                         "give the sides of the result, resize(224) or resize([112, 96]), or the length of its shorter "
                         "side, resize(shorter=256)");
  }
  if (args.has("size")) {
    const auto [height, width] = picture_sides(args);
    return per_sample(DType::kF32, {input.type.dims[1], height, width});
  }
  const int64_t shorter = args.integer("shorter");
  const int64_t height = input.type.dims[2];
  const int64_t width = input.type.dims[3];
  if (height == 0 || width == 0) {
    return per_sample(DType::kF32, {input.type.dims[1], 0, 0});
  }
  return per_sample(DType::kF32, {input.type.dims[1], shorter * height / std::min(height, width),
                                  shorter * width / std::min(height, width)});
}

Result<TensorType> square(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  return per_sample(DType::kF32, {input.type.dims[1], args.integer("size"), args.integer("size")});
}

Result<TensorType> cropped(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  const int64_t size = args.integer("size");
  const int64_t pad = args.integer("pad", 0);
  for (const int64_t side : {input.type.dims[2], input.type.dims[3]}) {
    if (side != 0 && size > side + 2 * pad) {
      return content_error("XG0409", {"`{}({})` does not fit a picture of {}", def.name, size, to_text(input.type)},
                           {"ask for at most {}, or `resize` first", side + 2 * pad});
    }
  }
  return per_sample(input.type.dtype, {input.type.dims[1], size, size});
}

Result<TensorType> cropped_and_resized(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_ends(args, "area", 1, 2));
  XRUN_TRY(check_ends(args, "ratio", 2, 2));
  return square(def, input, args);
}

Result<TensorType> same_picture(const AugmentDef& def, const Field& input, const Attrs&) {
  XRUN_TRY(check_picture(def, input));
  return input.type;
}

Result<TensorType> normalized(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_ASSIGN(TensorType type, as_float(def, input, args));
  const int64_t channels = type.rank() == 4 ? type.dims[1] : 1;
  for (const std::string_view name : {"mean", "std"}) {
    const AttrValue* given = args.find(name);
    if (given == nullptr || !(std::holds_alternative<std::vector<int64_t>>(*given) ||
                              std::holds_alternative<std::vector<double>>(*given))) {
      return out_of_range(name, "not a number", "a number, or a list of numbers");
    }
    const auto values = args.reals(name);
    if (values.size() != 1 && static_cast<int64_t>(values.size()) != channels) {
      return content_error("XG0409", {"`{}` has {} values for {} channels", name, values.size(), channels},
                           "give one number, or one per channel");
    }
    if (name == "std" && std::ranges::any_of(values, [](double v) { return !(v > 0); })) {
      return out_of_range(name, {"[{}]", fmt::join(values, ", ")}, "numbers above 0");
    }
  }
  return type;
}

// The type of numbers, one or a row of them, whose missing values a stage replaces or keeps.
Result<TensorType> numbers_of(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_ASSIGN(TensorType type, as_float(def, input, args));
  if (type.rank() > 2) {
    return content_error(
        "XG0409",
        {"`{}` needs one number per sample or a row of them, but `{}` is {}", def.name, input.name, to_text(type)},
        "for pictures write scale(1 / 255), or normalize(mean=.., std=..)");
  }
  return type;
}

Result<TensorType> standardized(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_ASSIGN(TensorType type, numbers_of(def, input, args));
  const int64_t width = type.row_elements();
  if (width > kMostStandardized) {
    return content_error("XG0409", {"`{}` takes at most {} columns, but gets {}", def.name, kMostStandardized, width},
                         "take fewer columns, or write normalize(mean=.., std=..) with one number for all");
  }
  return type;
}

// The type of a class label: one whole number per sample, or a row of them.
Result<TensorType> class_number(const AugmentDef&, const Field& input, const Attrs& args) {
  if (input.encoded || input.type.rank() > 2) {
    return content_error(
        "XG0409",
        {"`as_index` needs one number per sample or a row of them, but `{}` is {}", input.name, to_text(input.type)},
        "take one column or several: column(i) -> as_index(classes)");
  }
  const int64_t classes = args.integer("classes");
  if (input.type.rank() == 1) {
    return per_sample(index_dtype(classes), {}, classes);
  }
  constexpr int64_t kMost = int64_t{INT32_MAX} + 1;
  if (classes > kMost) {
    return out_of_range("classes", {"{}", classes}, {"at most {} for a row of numbers", kMost});
  }
  return per_sample(DType::kI32, {input.type.dims[1]}, classes);
}

// The type of labels, one per sample or a row of them, before they become classes.
Result<TensorType> partly_labelled(const AugmentDef&, const Field& input, const Attrs& args) {
  if (input.encoded || input.type.rank() > 2 || input.type.dtype == DType::kU8 || input.type.dtype == DType::kBool) {
    return content_error(
        "XG0409",
        {"`ignore` needs one number per sample or a row of them, but `{}` is {}", input.name, to_text(input.type)},
        "put it before `as_index` of a label: label = column(6) -> ignore(-1) -> as_index(12)");
  }
  const AttrValue* values = args.find("values");
  const bool is_empty = values == nullptr || *values == AttrValue(std::vector<int64_t>());
  if (is_empty && !args.flag("missing", false)) {
    return content_error(
        "XG0413", "`ignore` names no values",
        "name the values that stand for no label: ignore(-1), ignore(\"unknown\") or ignore(missing=true)");
  }
  if (values != nullptr && std::holds_alternative<std::vector<double>>(*values)) {
    return out_of_range("values", {"[{}]", fmt::join(args.reals("values"), ", ")},
                        "whole numbers, as labels are, or texts: ignore([-1, 255]), ignore(\"unknown\")");
  }
  return input.type;
}

constexpr AugmentDef kAugments[] = {
    {"decode", "(size: pair = none, channels: int = 3, background: list = none, fast: bool = none)", "size 1..16384",
     "a picture file to pixels of 0 to 255, upright by EXIF; with channels=1 grey as ITU-R 601 weighs R, G and B; "
     "transparent pixels are blended over `background`, a grey or [r, g, b], black without it; with `size`, resized to "
     "a square or to [height, width]; with fast=true a JPEG that `decode`, or a crop or `resize` directly after it, "
     "shrinks to at most half is decoded at 1/2, 1/4 or 1/8 of its size, but at least twice the result's: approximate "
     "and faster",
     "decode(32, channels=1)", kReady, decoded},
    {"resize", "(size: pair = none, shorter: int = none, filter: str = none, antialias: bool = none)",
     "size 1..16384, shorter 1..16384",
     "to size x size or to [height, width], or with `shorter` so that the shorter side has that length and the ratio "
     "of "
     "the sides stays; `filter` is \"bilinear\" without it, or \"bicubic\"; antialiased unless antialias=false; equal "
     "to Pillow's up to rounding",
     "resize(32)", kReady, resized},
    {"random_crop", "(size: int, pad: int = 0)", "size 1..16384, pad 0..16384",
     "a random square, after `pad` zeros on each side; outside training the one in the middle",
     "random_crop(32, pad=4)", kReady, cropped},
    {"center_crop", "(size: int)", "size 1..16384", "the square in the middle", "center_crop(64)", kReady, cropped},
    {"random_resized_crop", "(size: int, area: list = none, ratio: list = none)",
     "size 1..16384, area 0.0001..1, ratio 0.01..100",
     "a random rectangle, resized to a square, as torchvision's RandomResizedCrop; its share of the picture is in "
     "`area`, [0.08, 1] by default (one number: to all of the picture), width over height in `ratio`, [3 / 4, 4 / 3] "
     "by "
     "default; outside training the largest square in the middle",
     "random_resized_crop(64)", kReady, cropped_and_resized},
    {"random_flip", "()", "", "left and right swapped with probability 1/2", "random_flip", kReady, same_picture, true},
    {"rand_augment", "(ops: int = 2, magnitude: int = 9, fill: float = 0)", "ops 1..14, magnitude 0..30, fill 0..255",
     "`ops` random operations of torchvision's RandAugment (identity, shear, translate, rotate, brightness, color, "
     "contrast, sharpness, posterize, solarize, autocontrast, equalize), each with Pillow's result; pixels are rounded "
     "to whole numbers of 0 to 255; `fill` outside of a moved picture",
     "rand_augment(ops=2, magnitude=9)", kReady, bytes_picture, true},
    {"random_erasing",
     "(p: float = 0.25, area: list = none, ratio: list = none, value: list = none, noise: bool = false)",
     "p 0..1, area 0..1, ratio 0.01..100",
     "with probability p, a rectangle becomes `value`, 0 by default, or with noise=true standard normal numbers; its "
     "share of the picture is in `area`, [0.02, 0.33] by default, height over width in `ratio`, [0.3, 3.3] by default, "
     "as torchvision's RandomErasing; `value` is in the units of pixels at this place of the binding",
     "random_erasing(0.25)", kReady, erased_picture, true},
    {"blur", "(kernel: int, sigma: list = none, p: float = 1)", "kernel 1..255, sigma 0.01..100, p 0..1",
     "with probability p, a Gaussian filter of `kernel` x `kernel` pixels with a deviation in `sigma`, [0.1, 2] by "
     "default, as torchvision's GaussianBlur",
     "blur(5, sigma=[0.1, 2])", kReady, blurred_picture, true},
    {"affine", "(degrees: list, translate: list = none, scale: list = none, shear: list = none, fill: float = 0)",
     "degrees -360..360, translate 0..1, scale 0.01..100, shear -89..89",
     "torchvision's RandomAffine: turned by ± degrees, moved by ± shares of width and height, enlarged by a factor in "
     "`scale`, sheared by ± degrees along x, or in [a, b], or in [a, b] and along y in [c, d]; bilinear, `fill` "
     "outside",
     "affine(10, translate=[0.1, 0.1], scale=[0.9, 1.1])", kReady, moved_picture, true},
    {"mixup", "(alpha: float, p: float = 1, one_label: bool = false)", "alpha 0.01..100, p 0..1",
     "the last stage of a binding: with probability p, lam x + (1 - lam) y for a sample x and the sample y of the row "
     "before it in the batch, with lam from Beta(alpha, alpha), as torchvision's MixUp; the loss counts both labels "
     "with these factors; with one_label=true a row has one of the two labels, drawn, as sharded heads need; with "
     "`cutmix` as well, each row draws one of the two",
     "mixup(0.2)", kReady, as_float, true},
    {"cutmix", "(alpha: float, p: float = 1, one_label: bool = false)", "alpha 0.01..100, p 0..1",
     "as `mixup`, but a rectangle of x has the pixels of y, as torchvision's CutMix: its sides are those of x times "
     "sqrt(1 - lam), its middle is uniform, borders cut it off, and lam is then the share of the pixels of x",
     "cutmix(1)", kReady, float_picture, true},
    {"color_jitter", "(brightness: float = 0, contrast: float = 0, saturation: float = 0)",
     "brightness 0..1, contrast 0..1, saturation 0..1",
     "brightness, contrast and saturation times random factors of 1 ± each; not clamped",
     "color_jitter(brightness=0.2)", kReady, float_picture, true},
    {"scale", "(k: float)", "", "x times k", "scale(1 / 255)", kReady, as_float, false, true},
    {"normalize", "(mean: list, std: list)", "", "(x - mean) / std, for all channels or one by one",
     "normalize(mean=127.5, std=127.5)", kReady, normalized, false, true},
    {"standardize", "()", "",
     "(x - mean) / deviation of each number of a row, both measured once on the source `train` without its random "
     "stages and stored in checkpoints; a constant column is divided by 1; missing values stay and are not measured; "
     "at most 65536 columns",
     "standardize", kReady, standardized, false, true},
    {"fill_missing", "(value: float)", "",
     "`value` in place of missing values, whose rows are otherwise broken samples; after `standardize`, 0 is the mean",
     "fill_missing(0)", kReady, numbers_of},
    {"as_index", "(classes: int, first: int = none)", "classes 1..1099511627776, first -1099511627776..1099511627776",
     "a class of 0..classes-1 from a whole number, or from each number of a row, counted from `first` on, which is 0 "
     "by default; texts are classes in byte order",
     "as_index(10)", kReady, class_number},
    {"as_class", "()", "",
     "a class from a text of a column: each distinct text of the source `train` is a class, numbered by first "
     "appearance; numbers are also texts and keep their leading zeros",
     "as_class", kReady, class_of_text},
    {"ignore", "(values: list = none, missing: bool = false)", "",
     "samples, or positions of a row, whose label is one of these whole numbers, texts or directories of a folder have "
     "no "
     "label: no loss and no metric counts them; with missing=true also empty cells and those with nan, NA or the like; "
     "before `as_index`",
     "ignore(-1)", kReady, partly_labelled},
    {"columns", "(range: keys)", "",
     "columns a to b - 1 of a row of a table, counted from 0, or columns by their names in the header, in this order",
     "columns(0..64)", kReady, columns_of, false, false, true},
    {"column", "(index: key)", "index 0..16777216",
     "one column of a row of a table, counted from 0, or by its name in the header, and then a label; `scale(1)` "
     "after a name makes it a number",
     "column(64)", kReady, column_of},
    {"ngrams", "(rows: int, length: int, chars: list = none, words: list = none, lower: bool = false, seed: int = 0)",
     "rows 2..2147483647, length 1..65536, chars 1..64, words 1..16, seed 0..9007199254740992",
     "a text to numbers of its character n-grams, with `chars` = [3, 6] those of 3 to 6 characters of `<word>`, and of "
     "its word n-grams; a hash gives each a number in 1..rows-1; 0 fills the row up to `length`, and n-grams beyond it "
     "are left out, counted and named in a warning; `lower` changes A-Z to a-z; words are separated by blanks",
     "ngrams(65_536, 64, chars=[2, 6], words=1)", kReady, hashed_ngrams},
    {"random_affine", "(rotate: float = 0, scale: float = 0, shear: float = 0, shift: float = 0)",
     "rotate 0..3.2, scale 0..0.9, shear 0..2, shift 0..1",
     "turned by ± rotate rad, each axis x (1 ± scale), sheared, moved by ± shift of the size; zero outside",
     "random_affine(rotate=0.1, shift=0.06)", kReady, float_picture, true},
    {"random_stroke", "(w: float)", "w 0..1", "strokes up to w of a 3x3 dilation thicker or of an erosion thinner",
     "random_stroke(0.5)", kReady, float_picture, true},
    {"random_blur", "(p: float)", "p 0..1", "with probability p, mixed with its 3x3 mean", "random_blur(0.3)", kReady,
     float_picture, true},
    {"random_noise", "(sigma: float)", "sigma 0..1000000", "normal noise of deviation sigma, then clamped to 0..1",
     "random_noise(0.05)", kReady, as_float, true, true},
};

}  // namespace

std::pair<int64_t, int64_t> picture_sides(const Attrs& arguments) {
  const AttrValue* size = arguments.find("size");
  if (const auto* sides = std::get_if<std::vector<int64_t>>(size)) {
    return {sides->front(), sides->back()};
  }
  return {std::get<int64_t>(*size), std::get<int64_t>(*size)};
}

Result<TensorType> AugmentDef::infer(const Field& input, const Attrs& arguments) const {
  XRUN_TRY(check_bounds(bounds, arguments));
  return type_of(*this, input, arguments);
}

std::span<const AugmentDef> augment_defs() { return kAugments; }

}  // namespace xrun
