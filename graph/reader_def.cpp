#include "graph/reader_def.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace xrun {
namespace {

Error fault(std::string code, std::string message, std::string help) {
  return {.kind = ErrorKind::kContent, .code = std::move(code), .message = std::move(message), .help = std::move(help)};
}

Error out_of_range(std::string_view name, std::string_view value, std::string_view allowed) {
  return fault("XG0413", fmt::format("`{}` is {}", name, value), fmt::format("`{}` takes {}", name, allowed));
}

Status check_range(const Attrs& args, std::string_view name, int64_t low, int64_t high) {
  const int64_t value = args.integer(name);
  if (value < low || value > high) {
    return out_of_range(name, fmt::format("{}", value), fmt::format("{} to {}", low, high));
  }
  return {};
}

Status check_real(const Attrs& args, std::string_view name, double low, double high) {
  const double value = args.real(name);
  if (!(value >= low && value <= high)) {
    return out_of_range(name, fmt::format("{}", value), fmt::format("{} to {}", low, high));
  }
  return {};
}

Status check_interval(const Attrs& args, std::string_view name, int64_t limit) {
  const auto& interval = args.integers(name);
  if (interval.size() != 2 || interval[0] < 0 || interval[1] <= interval[0] || interval[1] > limit) {
    return out_of_range(name, fmt::format("{}", fmt::join(interval, "..")),
                        "a range a..b with 0 <= a < b" + (limit < INT64_MAX ? fmt::format(" <= {}", limit) : ""));
  }
  return {};
}

// Pictures above this side are refused before memory is taken for them.
constexpr int64_t kLargestSide = 16'384;
constexpr int64_t kLastCodePoint = 0x110000;
constexpr int64_t kMostClasses = int64_t{1} << 40;

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
  XRUN_TRY(check_range(args, "size", 4, 1024));
  XRUN_TRY(check_range(args, "em", 4, 1024));
  const auto* fonts = std::get_if<std::vector<std::string>>(args.find("fonts"));
  if (fonts == nullptr || fonts->empty()) {
    return out_of_range("fonts", "no list of names",
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

// Every character of every face: its picture and its code point.
Bytes glyphs_held(const Attrs& args) {
  const auto& chars = args.integers("chars");
  const int64_t size = args.integer("size");
  const auto faces = static_cast<int64_t>(args.texts("fonts").size());
  return faces * (chars[1] - chars[0]) * (size * size + static_cast<int64_t>(sizeof(int32_t)));
}

Result<std::vector<Field>> idx_fields(const Attrs&) {
  return std::vector<Field>{{"pixels", per_sample(DType::kU8, {1, 0, 0})}, unknown_label("label")};
}

Result<std::vector<Field>> folder_fields(const Attrs&) {
  return std::vector<Field>{encoded("file"), unknown_label("label"), text("name")};
}

Result<std::vector<Field>> csv_fields(const Attrs& args) {
  if (args.text("delimiter").size() != 1) {
    return out_of_range("delimiter", fmt::format("\"{}\"", args.text("delimiter")), "one character");
  }
  if (args.has("rows")) {
    XRUN_TRY(check_interval(args, "rows", INT64_MAX));
  }
  return std::vector<Field>{{"row", per_sample(DType::kF64, {0})}};
}

Result<std::vector<Field>> synthetic_fields(const Attrs& args) {
  XRUN_TRY(check_range(args, "classes", 1, kMostClasses));
  XRUN_TRY(check_range(args, "samples", 1, kMostClasses));
  XRUN_TRY(check_real(args, "noise", 0, 1e6));
  const auto* shape = std::get_if<std::vector<int64_t>>(args.find("shape"));
  double elements = 1;
  for (const int64_t dim : shape == nullptr ? std::vector<int64_t>{0} : *shape) {
    elements = dim >= 1 && dim <= kLargestSide ? elements * static_cast<double>(dim) : HUGE_VAL;
  }
  if (elements > 1e9) {
    return out_of_range("shape",
                        shape == nullptr ? "no list of whole numbers" : fmt::format("[{}]", fmt::join(*shape, ", ")),
                        "a list such as [1, 32, 32]");
  }
  const int64_t classes = args.integer("classes");
  return std::vector<Field>{{"pixels", per_sample(DType::kF32, *shape)},
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
    {"glyphs", "(fonts: list, chars: range, size: int = 32, em: int = 26)",
     "characters drawn from installed fonts, `em` pixels high in a picture of `size`; label = code point - first",
     "glyphs([\"uming\", \"ukai\"], 0x4E00..0x9FA6)", kReady, glyphs_fields, glyphs_held},
    {"idx", "(images: str, labels: str)", "pictures and labels of a pair of IDX files, gzip accepted",
     "idx(\"train-images-idx3-ubyte.gz\", \"train-labels-idx1-ubyte.gz\")", kReady, idx_fields},
    {"folder", "(paths: list, match: str = \"*\")",
     "PNG and JPEG files in directories or zip archives whose names fit `match`; the class is the directory that holds "
     "the file; links are followed",
     "folder(\"pictures/train\", match=\"*_{01..15}.png\")", kReady, folder_fields},
    {"csv", "(path: str, rows: range = none, header: bool = false, delimiter: str = \",\")",
     "numbers in a text table, gzip accepted, read through column(i) and columns(a..b)",
     "csv(\"digits.csv\", rows=0..1437)", kReady, csv_fields},
    {"synthetic", "(shape: list, classes: int, samples: int, seed: int = 1, noise: float = 0.5)",
     "made up, without a file: a random prototype of unit variance for each class, plus noise; another `seed` gives "
     "other samples of the same classes",
     "synthetic([64], 1000, 20_000)", kReady, synthetic_fields, nothing_held, true},
    {"recordio", "(path: str)", "pictures of an MXNet RecordIO file", "recordio(\"train.rec\")", kNotYet,
     recordio_fields},
    {"pairs", "(path: str)", "pairs of pictures of a verification set", "pairs(\"lfw.bin\")", kNotYet, pairs_fields},
    {"list", "(path: str, root: str = \"\", delimiter: str = \"\\t\")", "pictures named by a list of path and label",
     "list(\"train.tsv\", root=\"pictures\")", kNotYet, list_fields},
    {"webdataset", "(path: str)", "samples of tar shards", "webdataset(\"train-{000..127}.tar\")", kNotYet,
     webdataset_fields},
    {"npy", "(path: str)", "rows of a NumPy array", "npy(\"rows.npy\")", kNotYet, npy_fields},
    {"text", "(path: str)", "lines of text", "text(\"lines.txt\")", kNotYet, text_fields},
};

// ---- stages ----------------------------------------------------------------------------------------------------

Result<std::vector<int64_t>> picture_dims(const Field& input, std::string_view stage) {
  if (input.encoded) {
    return fault("XG0409", fmt::format("`{}` needs a picture, but `{}` is an encoded file", stage, input.name),
                 "put `decode` before it");
  }
  if (input.type.rank() != 4) {
    return fault(
        "XG0409",
        fmt::format("`{}` needs a picture [N, C, H, W], but `{}` is {}", stage, input.name, to_text(input.type)),
        "leave the stage out, or bind a field that holds pictures");
  }
  return std::vector<int64_t>(input.type.dims.begin() + 1, input.type.dims.end());
}

Result<TensorType> infer_decode(const Field& input, const Attrs& args) {
  if (!input.encoded) {
    return fault("XG0409",
                 fmt::format("`decode` needs an encoded file, but `{}` is {}", input.name, to_text(input.type)),
                 "leave `decode` out: the field is decoded already");
  }
  const int64_t channels = args.integer("channels", 3);
  if (channels != 1 && channels != 3) {
    return out_of_range("channels", fmt::format("{}", channels), "1 (grey) or 3 (RGB)");
  }
  if (!args.has("size")) {
    return per_sample(DType::kU8, {channels, 0, 0});
  }
  XRUN_TRY(check_range(args, "size", 1, kLargestSide));
  return per_sample(DType::kF32, {channels, args.integer("size"), args.integer("size")});
}

Result<TensorType> infer_resize(const Field& input, const Attrs& args) {
  XRUN_ASSIGN(const auto dims, picture_dims(input, "resize"));
  XRUN_TRY(check_range(args, "size", 1, kLargestSide));
  return per_sample(DType::kF32, {dims[0], args.integer("size"), args.integer("size")});
}

Result<TensorType> crop(const Field& input, const Attrs& args, std::string_view stage, int64_t pad) {
  XRUN_ASSIGN(const auto dims, picture_dims(input, stage));
  XRUN_TRY(check_range(args, "size", 1, kLargestSide));
  const int64_t size = args.integer("size");
  for (const int64_t side : {dims[1], dims[2]}) {
    if (side != 0 && size > side + 2 * pad) {
      return fault("XG0409", fmt::format("`{}({})` does not fit a picture of {}", stage, size, to_text(input.type)),
                   fmt::format("ask for at most {}, or `resize` first", side + 2 * pad));
    }
  }
  return per_sample(input.type.dtype, {dims[0], size, size});
}

Result<TensorType> infer_random_crop(const Field& input, const Attrs& args) {
  XRUN_TRY(check_range(args, "pad", 0, kLargestSide));
  return crop(input, args, "random_crop", args.integer("pad"));
}
Result<TensorType> infer_center_crop(const Field& input, const Attrs& args) {
  return crop(input, args, "center_crop", 0);
}

Result<TensorType> infer_random_resized_crop(const Field& input, const Attrs& args) {
  XRUN_ASSIGN(const auto dims, picture_dims(input, "random_resized_crop"));
  XRUN_TRY(check_range(args, "size", 1, kLargestSide));
  return per_sample(DType::kF32, {dims[0], args.integer("size"), args.integer("size")});
}

Result<TensorType> infer_flip(const Field& input, const Attrs&) {
  XRUN_TRY(picture_dims(input, "random_flip"));
  return input.type;
}

Result<TensorType> as_float(const Field& input, std::string_view stage) {
  if (input.encoded) {
    return fault("XG0409", fmt::format("`{}` needs numbers, but `{}` is an encoded file", stage, input.name),
                 "put `decode` before it");
  }
  TensorType type = input.type;
  type.dtype = DType::kF32;
  type.classes = 0;
  return type;
}

Result<TensorType> infer_scale(const Field& input, const Attrs&) { return as_float(input, "scale"); }

Result<TensorType> infer_normalize(const Field& input, const Attrs& args) {
  XRUN_ASSIGN(TensorType type, as_float(input, "normalize"));
  const int64_t channels = type.rank() == 4 ? type.dims[1] : 1;
  for (const std::string_view name : {"mean", "std"}) {
    const AttrValue* given = args.find(name);
    if (given == nullptr || !(std::holds_alternative<std::vector<int64_t>>(*given) ||
                              std::holds_alternative<std::vector<double>>(*given))) {
      return out_of_range(name, "no number", "a number, or a list of numbers");
    }
    const auto values = args.reals(name);
    if (values.size() != 1 && static_cast<int64_t>(values.size()) != channels) {
      return fault("XG0409", fmt::format("`{}` has {} values for {} channels", name, values.size(), channels),
                   "give one number, or one a channel");
    }
    if (name == "std" && std::ranges::any_of(values, [](double v) { return !(v > 0); })) {
      return out_of_range(name, fmt::format("[{}]", fmt::join(values, ", ")), "numbers above 0");
    }
  }
  return type;
}

Result<TensorType> infer_as_index(const Field& input, const Attrs& args) {
  if (input.encoded || input.type.rank() != 1) {
    return fault("XG0409",
                 fmt::format("`as_index` needs one number a sample, but `{}` is {}", input.name, to_text(input.type)),
                 "take one column: column(i) -> as_index(classes)");
  }
  XRUN_TRY(check_range(args, "classes", 1, kMostClasses));
  const int64_t classes = args.integer("classes");
  return per_sample(index_dtype(classes), {}, classes);
}

Status check_row(const Field& input, std::string_view stage, int64_t end) {
  if (input.encoded || input.type.rank() != 2 || input.type.dtype != DType::kF64) {
    return fault("XG0409",
                 fmt::format("`{}` needs the row of a table, but `{}` is {}", stage, input.name, to_text(input.type)),
                 "use it on a csv source, before other stages");
  }
  const int64_t width = input.type.dims[1];
  if (width != 0 && end > width) {
    return fault("XG0409", fmt::format("`{}` asks for column {} of {}", stage, end - 1, width),
                 "columns are counted from 0");
  }
  return {};
}

constexpr int64_t kMostColumns = 1 << 24;

Result<TensorType> infer_columns(const Field& input, const Attrs& args) {
  XRUN_TRY(check_interval(args, "range", kMostColumns));
  const auto& range = args.integers("range");
  XRUN_TRY(check_row(input, "columns", range[1]));
  return per_sample(DType::kF32, {range[1] - range[0]});
}

Result<TensorType> infer_column(const Field& input, const Attrs& args) {
  XRUN_TRY(check_range(args, "index", 0, kMostColumns));
  XRUN_TRY(check_row(input, "column", args.integer("index") + 1));
  return per_sample(input.type.dtype, {});
}

Result<TensorType> float_picture(const Field& input, std::string_view stage) {
  XRUN_ASSIGN(auto dims, picture_dims(input, stage));
  return per_sample(DType::kF32, std::move(dims));
}

Result<TensorType> infer_affine(const Field& input, const Attrs& args) {
  XRUN_TRY(check_real(args, "rotate", 0, 3.2));
  XRUN_TRY(check_real(args, "scale", 0, 0.9));
  XRUN_TRY(check_real(args, "shear", 0, 2));
  XRUN_TRY(check_real(args, "shift", 0, 1));
  return float_picture(input, "random_affine");
}
Result<TensorType> infer_stroke(const Field& input, const Attrs& args) {
  XRUN_TRY(check_real(args, "w", 0, 1));
  return float_picture(input, "random_stroke");
}
Result<TensorType> infer_blur(const Field& input, const Attrs& args) {
  XRUN_TRY(check_real(args, "p", 0, 1));
  return float_picture(input, "random_blur");
}
Result<TensorType> infer_noise(const Field& input, const Attrs& args) {
  XRUN_TRY(check_real(args, "sigma", 0, 1e6));
  return as_float(input, "random_noise");
}
Result<TensorType> infer_jitter(const Field& input, const Attrs& args) {
  for (const std::string_view name : {"brightness", "contrast", "saturation"}) {
    XRUN_TRY(check_real(args, name, 0, 1));
  }
  return float_picture(input, "color_jitter");
}

constexpr AugmentDef kAugments[] = {
    {"decode", "(size: int = none, channels: int = 3)",
     "JPEG or PNG to pixels of 0 to 255, grey with channels=1; with `size`, resized to a square",
     "decode(32, channels=1)", false, kReady, infer_decode},
    {"resize", "(size: int)", "to size x size by antialiased bilinear filtering", "resize(32)", false, kReady,
     infer_resize},
    {"random_crop", "(size: int, pad: int = 0)",
     "a random square, after `pad` zeros on each side; outside training the one in the middle",
     "random_crop(32, pad=4)", true, kReady, infer_random_crop},
    {"center_crop", "(size: int)", "the square in the middle", "center_crop(64)", false, kReady, infer_center_crop},
    {"random_resized_crop", "(size: int)", "a random area and aspect, resized to a square", "random_resized_crop(64)",
     true, kNotYet, infer_random_resized_crop},
    {"random_flip", "()", "left and right swapped with probability 1/2", "random_flip", true, kReady, infer_flip},
    {"color_jitter", "(brightness: float = 0, contrast: float = 0, saturation: float = 0)",
     "random brightness, contrast and saturation", "color_jitter(brightness=0.2)", true, kNotYet, infer_jitter},
    {"scale", "(k: float)", "x times k", "scale(1 / 255)", false, kReady, infer_scale},
    {"normalize", "(mean: list, std: list)", "(x - mean) / std, for all channels or one by one",
     "normalize(mean=127.5, std=127.5)", false, kReady, infer_normalize},
    {"as_index", "(classes: int)", "a whole number in 0..classes-1", "as_index(10)", false, kReady, infer_as_index},
    {"columns", "(range: range)", "columns a to b - 1 of a row of a table, counted from 0", "columns(0..64)", false,
     kReady, infer_columns},
    {"column", "(index: int)", "one column of a row of a table, counted from 0", "column(64)", false, kReady,
     infer_column},
    {"random_affine", "(rotate: float = 0, scale: float = 0, shear: float = 0, shift: float = 0)",
     "turned by ± rotate rad, each axis x (1 ± scale), sheared, moved by ± shift of the size; zero outside",
     "random_affine(rotate=0.1, shift=0.06)", true, kReady, infer_affine},
    {"random_stroke", "(w: float)", "strokes up to w of a 3x3 dilation thicker or of an erosion thinner",
     "random_stroke(0.5)", true, kReady, infer_stroke},
    {"random_blur", "(p: float)", "with probability p, mixed with its 3x3 mean", "random_blur(0.3)", true, kReady,
     infer_blur},
    {"random_noise", "(sigma: float)", "normal noise of deviation sigma, then clamped to 0..1", "random_noise(0.05)",
     true, kReady, infer_noise},
};

}  // namespace

const ReaderDef* DataRegistry::find_reader(std::string_view name) const {
  const auto found = std::ranges::find(readers, name, [](const ReaderDef* def) { return def->name; });
  return found == readers.end() ? nullptr : *found;
}

const AugmentDef* DataRegistry::find_augment(std::string_view name) const {
  const auto found = std::ranges::find(augments, name, [](const AugmentDef* def) { return def->name; });
  return found == augments.end() ? nullptr : *found;
}

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
