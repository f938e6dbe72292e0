#include "graph/reader_def.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

#include "graph/base/errors.h"

namespace xrun {
namespace {

Error out_of_range(std::string_view name, const Text& value, const Text& allowed) {
  return content_error("XG0413", {"`{}` is {}", name, value.text}, {"`{}` takes {}", name, allowed.text});
}

double number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Checks the arguments against bounds such as "size 4..1024, em 4..1024".
Status check_bounds(std::string_view all, const Attrs& args) {
  while (!all.empty()) {
    const std::string_view one = all.substr(0, all.find(", "));
    all.remove_prefix(std::min(all.size(), one.size() + 2));
    const std::string_view name = one.substr(0, one.find(' '));
    const std::string_view low = one.substr(name.size() + 1, one.find("..") - name.size() - 1);
    const std::string_view high = one.substr(one.find("..") + 2);
    const AttrValue* given = args.find(name);
    if (given == nullptr || std::holds_alternative<std::string>(*given)) {
      continue;  // `none`, or a name
    }
    const double value = args.real(name);
    if (!(value >= number(low) && value <= number(high))) {
      const auto* whole = std::get_if<int64_t>(given);
      return out_of_range(name, whole != nullptr ? fmt::format("{}", *whole) : fmt::format("{}", value),
                          {"{} to {}{}", low, high,
                           name == "rotate" && value <= 360 ? fmt::format(", in radians: {:g} degrees are {:.4g}",
                                                                          value, value * std::numbers::pi / 180)
                                                            : ""});
    }
  }
  return {};
}

Status check_interval(const Attrs& args, std::string_view name, int64_t limit) {
  const auto& interval = args.integers(name);
  if (interval.size() != 2 || interval[0] < 0 || interval[1] <= interval[0] || interval[1] > limit) {
    return out_of_range(name, {"{}", fmt::join(interval, "..")},
                        "a range a..b with 0 <= a < b" + (limit < INT64_MAX ? fmt::format(" <= {}", limit) : ""));
  }
  return {};
}

// Pictures with a larger side are rejected before memory is allocated for them.
constexpr int64_t kLargestSide = 16'384;
constexpr int64_t kLastCodePoint = 0x110000;
constexpr int64_t kMostColumns = 1 << 24;

TensorType per_sample(DType dtype, std::vector<int64_t> dims, int64_t classes = 0) {
  dims.insert(dims.begin(), kBatch);
  return {.dtype = dtype, .dims = std::move(dims), .classes = classes};
}

DType index_dtype(int64_t classes) { return classes > INT32_MAX ? DType::kI64 : DType::kI32; }

Field encoded(std::string name) {
  return {.name = std::move(name), .type = per_sample(DType::kU8, {0}), .encoded = true};
}
Field text(std::string name) { return {.name = std::move(name), .type = per_sample(DType::kU8, {0})}; }
Field unknown_label(std::string name) { return {.name = std::move(name), .type = per_sample(DType::kI64, {})}; }

// ---- readers ---------------------------------------------------------------------------------------------------

Result<std::vector<Field>> glyphs_fields(const Attrs& args) {
  XRUN_TRY(check_interval(args, "chars", kLastCodePoint));
  const auto* fonts = std::get_if<TextList>(args.find("fonts"));
  if (fonts == nullptr || fonts->empty()) {
    return out_of_range("fonts", "not a list of names",
                        "file stems of installed fonts, [\"uming\", \"NotoSansCJK-Regular:2\"]");
  }
  const auto& chars = args.integers("chars");
  const int64_t size = args.integer("size");
  const int64_t classes = chars[1] - chars[0];
  return std::vector<Field>{{"pixels", per_sample(DType::kU8, {1, size, size})},
                            {"label", per_sample(DType::kI32, {}, classes)},
                            {"font", per_sample(DType::kI32, {}, static_cast<int64_t>(fonts->size()))},
                            {"codepoint", per_sample(DType::kI32, {})}};
}

// Memory for every character of every face: its picture and its code point.
Bytes glyphs_held(const Attrs& args) {
  const auto& chars = args.integers("chars");
  const int64_t size = args.integer("size");
  const auto faces = static_cast<int64_t>(args.texts("fonts").size());
  return faces * (chars[1] - chars[0]) * (size * size + static_cast<int64_t>(sizeof(int32_t)));
}

Result<std::vector<Field>> idx_fields(const Attrs& args) {
  Field label = unknown_label("label");
  if (args.has("classes")) {
    label.type = per_sample(DType::kI32, {}, args.integer("classes"));
  }
  return std::vector<Field>{{"pixels", per_sample(DType::kU8, {1, 0, 0})}, label};
}

Result<std::vector<Field>> folder_fields(const Attrs&) {
  return std::vector<Field>{encoded("file"), unknown_label("label"), text("name")};
}

Result<std::vector<Field>> csv_fields(const Attrs& args) {
  const std::string& delimiter = args.text("delimiter");
  if (delimiter.size() != 1 || delimiter == "\n" || delimiter == "\r") {
    return out_of_range("delimiter", delimiter.size() == 1 ? "a line break" : fmt::format("\"{}\"", delimiter),
                        "one character other than a line break");
  }
  if (args.has("rows")) {
    XRUN_TRY(check_interval(args, "rows", INT64_MAX));
  }
  return std::vector<Field>{{"row", per_sample(DType::kF64, {0})}};
}

Result<std::vector<Field>> synthetic_fields(const Attrs& args) {
  const auto* shape = std::get_if<std::vector<int64_t>>(args.find("shape"));
  double elements = 1;
  for (const int64_t dim : shape == nullptr ? std::vector<int64_t>{0} : *shape) {
    elements = dim >= 1 && dim <= kLargestSide ? elements * static_cast<double>(dim) : HUGE_VAL;
  }
  if (elements > 1e9) {
    return out_of_range("shape",
                        shape == nullptr ? "not a list of whole numbers" : fmt::format("[{}]", fmt::join(*shape, ", ")),
                        "a list such as [1, 32, 32]");
  }
  const int64_t classes = args.integer("classes");
  return std::vector<Field>{{"pixels", per_sample(DType::kF32, *shape)},
                            {"label", per_sample(index_dtype(classes), {}, classes)}};
}

Result<std::vector<Field>> sku_tree_fields(const Attrs& args) {
  const int64_t classes = args.integer("classes");
  return std::vector<Field>{{"pixels", per_sample(DType::kF32, {args.integer("dim")})},
                            {"label", per_sample(index_dtype(classes), {}, classes)}};
}

Bytes nothing_held(const Attrs&) { return 0; }

Result<std::vector<Field>> recordio_fields(const Attrs&) {
  return std::vector<Field>{encoded("jpeg"), unknown_label("label"), unknown_label("id")};
}
Result<std::vector<Field>> pairs_fields(const Attrs&) {
  return std::vector<Field>{encoded("jpeg"), {"same", per_sample(DType::kBool, {})}};
}
Result<std::vector<Field>> list_fields(const Attrs&) {
  return std::vector<Field>{encoded("file"), unknown_label("label"), text("name")};
}
Result<std::vector<Field>> webdataset_fields(const Attrs&) {
  return std::vector<Field>{encoded("jpg"), encoded("jpeg"), encoded("png"), unknown_label("cls"), text("key")};
}
Result<std::vector<Field>> npy_fields(const Attrs&) {
  return std::vector<Field>{{"value", per_sample(DType::kF32, {0})}};
}
Result<std::vector<Field>> text_fields(const Attrs&) {
  return std::vector<Field>{text("line"), unknown_label("label")};
}

constexpr auto kReady = Availability::kReady;
constexpr auto kNotYet = Availability::kNotYet;

constexpr ReaderDef kReaders[] = {
    {"glyphs", "(fonts: list, chars: range, size: int = 32, em: int = 26)", "size 4..1024, em 4..1024",
     "characters drawn from installed fonts, `em` pixels high in a picture of `size`; label = code point - first",
     "glyphs([\"uming\", \"ukai\"], 0x4E00..0x9FA6)", kReady, glyphs_fields, glyphs_held},
    {"idx", "(images: str, labels: str, classes: int = none)", "classes 1..2147483648",
     "pictures and labels of a pair of IDX files, gzip accepted; bytes are 0 to 255, other element types their "
     "values; without `classes` their number is the largest label plus one",
     "idx(\"train-images-idx3-ubyte.gz\", \"train-labels-idx1-ubyte.gz\")", kReady, idx_fields},
    {"folder", "(paths: list, match: str = \"*\")", "",
     "PNG, JPEG, WebP, BMP, PGM and PPM files in directories or zip archives whose names fit `match`; the class is the "
     "directory that holds the file; links are followed; other files, pictures outside of the class directories and "
     "directories of tools are left out, counted and named in a warning",
     "folder(\"pictures/train\", match=\"*_{01..15}.png\")", kReady, folder_fields},
    {"csv", "(path: str, rows: range = none, header: bool = false, delimiter: str = \",\")", "",
     "a text table, gzip accepted, read through column(i) and columns(a..b); a column of texts is a label, and "
     "`header` "
     "gives the columns names",
     "csv(\"digits.csv\", rows=0..1437)", kReady, csv_fields},
    {"synthetic", "(shape: list, classes: int, samples: int, seed: int = 1, noise: float = 0.5)",
     "classes 1..1099511627776, samples 1..1099511627776, noise 0..1000000",
     "generated, without a file: a random prototype of unit variance for each class, plus noise; another `seed` gives "
     "other samples of the same classes",
     "synthetic([64], 1000, 20_000)", kReady, synthetic_fields, nothing_held, true},
    {"sku_tree",
     "(classes: int, samples: int, dim: int = 64, seed: int = 1, noise: float = 0.6, tail: float = 0.3, "
     "conflicts: float = 0)",
     "classes 1..1099511627776, samples 1..1099511627776, dim 1..65536, noise 0..1000000, tail 0..0.9, conflicts 0..1",
     "generated, without a file: the articles of a shop with departments and groups; the longer the `tail`, the more "
     "samples the frequent articles have; a share `conflicts` of the labels is that of another article of the group; "
     "another `seed` gives other samples of the same classes",
     "sku_tree(1000, 27_000)", kReady, sku_tree_fields, nothing_held, true},
    {"recordio", "(path: str)", "", "pictures of an MXNet RecordIO file", "recordio(\"train.rec\")", kNotYet,
     recordio_fields},
    {"pairs", "(path: str)", "", "pairs of pictures of a verification set", "pairs(\"lfw.bin\")", kNotYet,
     pairs_fields},
    {"list", "(path: str, root: str = \"\", delimiter: str = \"\\t\")", "",
     "pictures named by a list of path and label", "list(\"train.tsv\", root=\"pictures\")", kNotYet, list_fields},
    {"webdataset", "(path: str)", "", "samples of tar shards", "webdataset(\"train-{000..127}.tar\")", kNotYet,
     webdataset_fields},
    {"npy", "(path: str)", "", "rows of a NumPy array", "npy(\"rows.npy\")", kNotYet, npy_fields},
    {"text", "(path: str)", "", "lines of text", "text(\"lines.txt\")", kNotYet, text_fields},
};

// ---- stages ----------------------------------------------------------------------------------------------------

// Returns an error unless the field is a decoded picture.
Status check_picture(const AugmentDef& def, const Field& input) {
  if (input.encoded) {
    return content_error("XG0409", {"`{}` needs a picture, but `{}` is an encoded file", def.name, input.name},
                         "put `decode` before it");
  }
  if (input.type.rank() != 4) {
    return content_error(
        "XG0409", {"`{}` needs a picture [N, C, H, W], but `{}` is {}", def.name, input.name, to_text(input.type)},
        "leave the stage out, or bind a field that holds pictures");
  }
  return {};
}

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
  return per_sample(DType::kF32, {channels, args.integer("size"), args.integer("size")});
}

Result<TensorType> resized(const AugmentDef& def, const Field& input, const Attrs& args) {
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

Result<TensorType> same_picture(const AugmentDef& def, const Field& input, const Attrs&) {
  XRUN_TRY(check_picture(def, input));
  return input.type;
}

Result<TensorType> as_float(const AugmentDef& def, const Field& input, const Attrs&) {
  if (input.encoded) {
    return content_error("XG0409", {"`{}` needs numbers, but `{}` is an encoded file", def.name, input.name},
                         "put `decode` before it");
  }
  TensorType type = input.type;
  type.dtype = DType::kF32;
  type.classes = 0;
  return type;
}

Result<TensorType> float_picture(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_picture(def, input));
  return as_float(def, input, args);
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

// The type of a text column's class numbers; opening the table determines their count.
Result<TensorType> class_of_text(const AugmentDef&, const Field& input, const Attrs&) {
  const DType dtype = input.type.dtype;
  if (input.name != "row" || input.encoded || input.type.rank() != 1 ||
      (dtype != DType::kF64 && dtype != DType::kI64)) {
    return content_error("XG0409",
                         {"`as_class` needs one column of a table, but `{}` is {}", input.name, to_text(input.type)},
                         "put it directly after `column`: column(\"id\") -> as_class");
  }
  return per_sample(DType::kI64, {});
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

Status check_row(const Field& input, std::string_view stage, int64_t end) {
  if (input.encoded || input.type.rank() != 2 || input.type.dtype != DType::kF64) {
    return content_error("XG0409",
                         {"`{}` needs the row of a table, but `{}` is {}", stage, input.name, to_text(input.type)},
                         "use it on a csv source, before other stages");
  }
  const int64_t width = input.type.dims[1];
  if (width != 0 && end > width) {
    return content_error("XG0409", {"`{}` asks for column {} of {}", stage, end - 1, width},
                         "columns are counted from 0");
  }
  return {};
}

Result<TensorType> columns_of(const AugmentDef& def, const Field& input, const Attrs& args) {
  XRUN_TRY(check_interval(args, "range", kMostColumns));
  const auto& range = args.integers("range");
  XRUN_TRY(check_row(input, def.name, range[1]));
  return per_sample(DType::kF32, {range[1] - range[0]});
}

Result<TensorType> column_of(const AugmentDef& def, const Field& input, const Attrs& args) {
  if (std::holds_alternative<std::string>(*args.find("index"))) {
    XRUN_TRY(check_row(input, def.name, 0));
    return per_sample(DType::kI64, {});
  }
  XRUN_TRY(check_row(input, def.name, args.integer("index") + 1));
  return per_sample(input.type.dtype, {});
}

constexpr AugmentDef kAugments[] = {
    {"decode", "(size: int = none, channels: int = 3, background: list = none)", "size 1..16384",
     "a picture file to pixels of 0 to 255, upright by EXIF; with channels=1 grey as ITU-R 601 weighs R, G and B; "
     "transparent pixels are blended over `background`, a grey or [r, g, b], black without it; with `size`, resized to "
     "a square",
     "decode(32, channels=1)", kReady, decoded},
    {"resize", "(size: int)", "size 1..16384", "to size x size by antialiased bilinear filtering", "resize(32)", kReady,
     resized},
    {"random_crop", "(size: int, pad: int = 0)", "size 1..16384, pad 0..16384",
     "a random square, after `pad` zeros on each side; outside training the one in the middle",
     "random_crop(32, pad=4)", kReady, cropped},
    {"center_crop", "(size: int)", "size 1..16384", "the square in the middle", "center_crop(64)", kReady, cropped},
    {"random_resized_crop", "(size: int, area: float = none)", "size 1..16384, area 0.0001..1",
     "a random rectangle of `area`, 0.08 without it, to all of the picture, its sides at most 4 to 3, resized to a "
     "square; outside "
     "training the largest square in the middle",
     "random_resized_crop(64)", kReady, resized},
    {"random_flip", "()", "", "left and right swapped with probability 1/2", "random_flip", kReady, same_picture},
    {"color_jitter", "(brightness: float = 0, contrast: float = 0, saturation: float = 0)",
     "brightness 0..1, contrast 0..1, saturation 0..1",
     "brightness, contrast and saturation times random factors of 1 ± each; not clamped",
     "color_jitter(brightness=0.2)", kReady, float_picture},
    {"scale", "(k: float)", "", "x times k", "scale(1 / 255)", kReady, as_float},
    {"normalize", "(mean: list, std: list)", "", "(x - mean) / std, for all channels or one by one",
     "normalize(mean=127.5, std=127.5)", kReady, normalized},
    {"as_index", "(classes: int, first: int = none)", "classes 1..1099511627776, first -1099511627776..1099511627776",
     "a class of 0..classes-1 out of a whole number, or of each one of a row, that counts from `first` on, 0 without "
     "it; texts are classes in byte order",
     "as_index(10)", kReady, class_number},
    {"as_class", "()", "",
     "a class out of a text of a column: each distinct text of the source `train` is a class, numbered by first "
     "appearance; numbers are also texts and keep their leading zeros",
     "as_class", kReady, class_of_text},
    {"ignore", "(values: list = none, missing: bool = false)", "",
     "samples, or positions of a row, whose label is one of these whole numbers, texts or directories of a folder have "
     "no "
     "label: no loss and no metric counts them; with missing=true also empty cells and those with nan, NA or the like; "
     "before `as_index`",
     "ignore(-1)", kReady, partly_labelled},
    {"columns", "(range: range)", "", "columns a to b - 1 of a row of a table, counted from 0", "columns(0..64)",
     kReady, columns_of},
    {"column", "(index: key)", "index 0..16777216",
     "one column of a row of a table, counted from 0, or by its name in the header, and then a label; `scale(1)` "
     "after a name makes it a number",
     "column(64)", kReady, column_of},
    {"random_affine", "(rotate: float = 0, scale: float = 0, shear: float = 0, shift: float = 0)",
     "rotate 0..3.2, scale 0..0.9, shear 0..2, shift 0..1",
     "turned by ± rotate rad, each axis x (1 ± scale), sheared, moved by ± shift of the size; zero outside",
     "random_affine(rotate=0.1, shift=0.06)", kReady, float_picture},
    {"random_stroke", "(w: float)", "w 0..1", "strokes up to w of a 3x3 dilation thicker or of an erosion thinner",
     "random_stroke(0.5)", kReady, float_picture},
    {"random_blur", "(p: float)", "p 0..1", "with probability p, mixed with its 3x3 mean", "random_blur(0.3)", kReady,
     float_picture},
    {"random_noise", "(sigma: float)", "sigma 0..1000000", "normal noise of deviation sigma, then clamped to 0..1",
     "random_noise(0.05)", kReady, as_float},
};

}  // namespace

Result<std::vector<Field>> ReaderDef::fields(const Attrs& arguments) const {
  XRUN_TRY(check_bounds(bounds, arguments));
  return fields_of(arguments);
}

Result<TensorType> AugmentDef::infer(const Field& input, const Attrs& arguments) const {
  XRUN_TRY(check_bounds(bounds, arguments));
  return type_of(*this, input, arguments);
}

namespace {

template <class Def>
const Def* find(const std::vector<const Def*>& all, std::string_view name) {
  const auto found = std::ranges::find(all, name, &Def::name);
  return found == all.end() ? nullptr : *found;
}

}  // namespace

const ReaderDef* DataRegistry::find_reader(std::string_view name) const { return find(readers, name); }
const AugmentDef* DataRegistry::find_augment(std::string_view name) const { return find(augments, name); }

std::vector<std::string> synthetic_sources(const DataSpec& data) {
  std::vector<std::string> names;
  for (const SourceSpec& source : data.sources) {
    const ReaderDef* reader = data_registry().find_reader(source.reader.name);
    if (reader != nullptr && reader->synthetic) {
      names.push_back(source.name);
    }
  }
  return names;
}

const DataRegistry& data_registry() {
  static const DataRegistry registry = [] {
    DataRegistry made;
    for (const ReaderDef& def : kReaders) {
      made.readers.push_back(&def);
    }
    for (const AugmentDef& def : kAugments) {
      made.augments.push_back(&def);
    }
    return made;
  }();
  return registry;
}

}  // namespace xrun
