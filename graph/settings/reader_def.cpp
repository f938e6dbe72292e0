// Tests: tests/runtime/cli/commands/reference_test.cpp
#include "graph/settings/reader_def.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/settings/data_arguments.h"
#include "graph/settings/pair_fields.h"

namespace xrun {
namespace {

constexpr int64_t kLastCodePoint = 0x110000;

Field encoded(std::string name) {
  return {.name = std::move(name), .type = per_sample(DType::kU8, {0}), .encoded = true};
}
Field text(std::string name) { return {.name = std::move(name), .type = per_sample(DType::kU8, {0})}; }
Field unknown_label(std::string name) { return {.name = std::move(name), .type = per_sample(DType::kI64, {})}; }

bool is_one_of(const Attrs& args, std::string_view name, std::initializer_list<std::string_view> allowed) {
  return std::ranges::find(allowed, args.text(name)) != allowed.end();
}

// Checks that an argument, if it is given, is a list of one text or more.
Status check_paths(const Attrs& args, std::string_view name) {
  const AttrValue* given = args.find(name);
  const auto* paths = given == nullptr ? nullptr : std::get_if<TextList>(given);
  if (given == nullptr || (paths != nullptr && !paths->empty())) {
    return {};
  }
  return out_of_range(name, "not a list of texts", {"a text or a list of texts: {}=[\"a.npy\", \"b.npy\"]", name});
}

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

// The memory for all characters of all faces: each has a picture and a code point.
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

Status check_delimiter(const Attrs& args) {
  const std::string& delimiter = args.text("delimiter");
  if (delimiter.size() != 1 || delimiter == "\n" || delimiter == "\r") {
    return out_of_range("delimiter", delimiter.size() == 1 ? "a line break" : fmt::format("\"{}\"", delimiter),
                        "one character other than a line break; \" \" stands for runs of spaces and tabs");
  }
  return {};
}

Result<std::vector<Field>> csv_fields(const Attrs& args) {
  XRUN_TRY(check_delimiter(args));
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
  return std::vector<Field>{encoded("jpeg"),
                            unknown_label("label"),
                            {"labels", per_sample(DType::kF32, {0})},
                            {"id", per_sample(DType::kI64, {})}};
}
Result<std::vector<Field>> pairs_fields(const Attrs& args) {
  if (args.has("templates")) {
    return std::vector<Field>{encoded("jpeg"), unknown_label(std::string(kTemplateField)), encoded("file")};
  }
  return std::vector<Field>{encoded("jpeg"), {std::string(kPairField), per_sample(DType::kBool, {})}, encoded("file")};
}
Result<std::vector<Field>> list_fields(const Attrs& args) {
  XRUN_TRY(check_delimiter(args));
  return std::vector<Field>{encoded("file"), unknown_label("label"), text("name")};
}
Result<std::vector<Field>> webdataset_fields(const Attrs&) {
  return std::vector<Field>{encoded("image"), encoded("jpg"),       encoded("jpeg"), encoded("png"),
                            encoded("webp"),  unknown_label("cls"), text("key")};
}
Result<std::vector<Field>> npy_fields(const Attrs& args) {
  XRUN_TRY(check_paths(args, "path"));
  XRUN_TRY(check_paths(args, "labels"));
  if (args.has("rows")) {
    XRUN_TRY(check_interval(args, "rows", INT64_MAX));
  }
  if (args.has("dtype") && !is_one_of(args, "dtype", {"bf16", "f8e4m3", "f8e5m2"})) {
    return out_of_range("dtype", {"\"{}\"", args.text("dtype")}, "\"bf16\", \"f8e4m3\" or \"f8e5m2\"");
  }
  std::vector<int64_t> shape{0, 0, 0};
  if (is_one_of(args, "layout", {"number", "row", "matrix", "volume"})) {
    const std::string& layout = args.text("layout");
    shape.resize(layout == "number" ? 0 : layout == "row" ? 1 : layout == "matrix" ? 2 : 4);
  } else if (args.text("layout") == "hw") {
    shape[0] = 1;
  } else if (!is_one_of(args, "layout", {"chw", "hwc"})) {
    return out_of_range("layout", {"\"{}\"", args.text("layout")},
                        "\"number\", \"row\", \"matrix\", \"hw\", \"chw\", \"hwc\" or \"volume\"");
  }
  std::vector<Field> fields{{"value", per_sample(DType::kF32, std::move(shape))}};
  if (args.has("labels")) {
    fields.push_back(unknown_label("label"));
    if (args.has("classes")) {
      fields.back().type = per_sample(DType::kI32, {}, args.integer("classes"));
    }
  }
  return fields;
}
Result<std::vector<Field>> sparse_fields(const Attrs& args) {
  if (args.has("label") && !is_one_of(args, "label", {"first", "only"})) {
    return out_of_range("label", {"\"{}\"", args.text("label")}, "\"first\" or \"only\"");
  }
  return std::vector<Field>{{"features", per_sample(DType::kF32, {args.integer("hash", 0)})}, unknown_label("label")};
}
// With `text` alone, lines have no labels.
Result<std::vector<Field>> text_fields(const Attrs& args) {
  XRUN_TRY(check_delimiter(args));
  std::vector<Field> fields{text("text")};
  if (args.has("label") || !args.has("text")) {
    fields.push_back(unknown_label("label"));
  } else if (args.has("classes")) {
    return out_of_range("classes", {"{}", args.integer("classes")},
                        "leave it out: lines with `text` alone have no labels");
  }
  if (args.has("label") && !args.has("text")) {
    return out_of_range("label", "given without `text`", "give both columns: label=0, text=2");
  }
  for (const std::string_view name : {"label", "text"}) {
    const bool is_name = args.has(name) && std::holds_alternative<std::string>(*args.find(name));
    if (is_name && !args.flag("header", false)) {
      return out_of_range(name, {"\"{}\"", args.text(name)}, "the position of a column, or write header=true");
    }
  }
  return fields;
}

constexpr auto kReady = Availability::kReady;

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
     "a text table, gzip accepted, read through column(i), columns(a..b) and columns(\"a\", \"b\"); a column of "
     "texts is a label, and `header` gives the columns names; `delimiter` is one character, and \" \" stands for runs "
     "of blanks",
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
    {"recordio", "(path: str, index: str = none, list: str = none, classes: int = none)", "classes 1..2147483647",
     "pictures in MXNet's files of records, as im2rec and InsightFace write them; `train.idx` and `train.lst` next to "
     "`train.rec` are used, or the `index` and `list` that are named (\"\": none); `labels` is the whole list of "
     "labels, `label` its first; braces name several files; `train.classes` gives the names of the classes; without it "
     "and `classes` their number is that in `property`, or the largest label plus one",
     "recordio(\"ms1m/train.rec\")", kReady, recordio_fields},
    {"list", "(path: str, root: str = \"\", delimiter: str = \"\\t\", header: bool = false, classes: int = none)",
     "classes 1..2147483647",
     "pictures that the lines of a text name, each with its label: the number of its class, or if not all labels are "
     "numbers, its name; paths start at `root`, which they may not leave, or without it at the folder of the list; "
     "lists of PLSC v1 hold the pictures as base64",
     "list(\"train.tsv\", root=\"pictures\")", kReady, list_fields},
    {"pairs", "(path: str, root: str = \"\", templates: str = none)", "",
     "pairs of pictures of a verification set: a `.bin` file of InsightFace, or a list with two paths and 1 (same) or "
     "0 in each line; paths start at `root`, or else at the folder of the list; samples 2i and 2i + 1 are pair i; "
     "`templates` is a list with a path, a template and a medium in each line, as IJB-C has it, and `path` then a list "
     "with two templates and 1 or 0; `file` is another name of `jpeg`",
     "pairs(\"lfw.bin\")", kReady, pairs_fields},
    {"webdataset", "(path: list)", "",
     "samples of tar shards, named by ranges, `*` or directories; members with one name up to the first dot are a "
     "sample, `image` is its picture whatever the extension, and `cls` the number in its `.cls` member; a file "
     "`train.classes` gives the names of the classes; `xrun data index` makes opening fast",
     "webdataset(\"train-{000..127}.tar\")", kReady, webdataset_fields},
    {"npy",
     "(path: list, labels: list = none, values: str = none, classes: int = none, rows: range = none, "
     "layout: str = \"row\", dtype: str = none)",
     "classes 1..2147483648",
     "samples of a NumPy array, from .npy files or archives .npz, and `labels`: another file, or the name of an array "
     "of the archive, as `values` is for the samples; `layout` is the shape of a sample: \"number\", \"row\", "
     "\"matrix\", \"hw\", \"chw\", \"hwc\" or \"volume\"; `dtype` is the type of bf16 or 8-bit floats, which NumPy "
     "stores without a type",
     "npy(\"x_train.npy\", labels=\"y_train.npy\")", kReady, npy_fields},
    {"sparse", "(path: str, label: str = none, hash: int = none)", "hash 1..65536",
     "lines of labels and features in the text format of the Extreme Classification Repository; `label` is the label "
     "of "
     "rows that have several: the \"first\", or \"only\" rows with one label are samples; `hash` adds the features "
     "with "
     "random signs into that many numbers",
     "sparse(\"train.txt\", label=\"first\", hash=4096)", kReady, sparse_fields},
    {"text",
     "(path: str, label: key = none, text: key = none, delimiter: str = \"\\t\", header: bool = false, "
     "classes: int = none)",
     "label 0..16777216, text 0..16777216, classes 1..2147483647",
     "lines of UTF-8: a label, a tab and the text up to the end of the line; or the columns `label` and `text`, by "
     "position or by name with `header`; with `text` alone, lines have no labels; a label is the number of its class, "
     "or if not all labels are numbers, its name; empty lines are skipped",
     "text(\"lines.tsv\")", kReady, text_fields},
};

}  // namespace

Result<std::vector<Field>> ReaderDef::fields(const Attrs& arguments) const {
  XRUN_TRY(check_bounds(bounds, arguments));
  return fields_of(arguments);
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
    for (const AugmentDef& def : augment_defs()) {
      made.augments.push_back(&def);
    }
    return made;
  }();
  return registry;
}

}  // namespace xrun
