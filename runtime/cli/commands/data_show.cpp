// `xrun data show`: opens files of data with the reader that fits them, and describes what they hold.
// Tests: tests/runtime/cli/commands/data_test.cpp
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "graph/base/counted.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "lang/frontend.h"
#include "ops/norm/norm_numbers.h"
#include "ops/op.h"
#include "runtime/cli/commands/data.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/sources/guess_reader.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/data/open_reader.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::cli {
namespace {

// The source that a call of a reader declares. It is called `train`, so that readers warn of classes without samples.
Outcome<SourceSpec> source_of(const std::string& call) {
  SourceMap sources;
  Diagnostics diagnostics;
  auto file = lang::check_text("data", "xgraph 1\n\ndata d {\n  source train = " + call + "\n}\n", sources, diagnostics,
                               {.ops = &ops::registry(), .norm_of = ops::norm_group});
  if (!file || file->module.data.sources.empty()) {
    return Failure(std::move(diagnostics), std::move(sources));
  }
  SourceSpec source = std::move(file->module.data.sources[0]);
  source.directory = "";        // paths of the command line start at the working directory
  source.reader.span = Span{};  // a fault of the data is not one of this text
  return source;
}

std::string type_of(const Field& field) {
  if (field.encoded) {
    return "encoded";
  }
  std::string dims;
  for (size_t i = 1; i < field.type.dims.size(); ++i) {
    dims += (i == 1 ? "" : ", ") + (field.type.dims[i] == 0 ? "?" : std::to_string(field.type.dims[i]));
  }
  return std::string(name_of(field.type.dtype)) + (dims.empty() ? "" : "[" + dims + "]");
}

// The field with the labels of a source; -1 if it has none.
int label_field(const runtime::Reader& reader) {
  const int label = reader.find_field("label");
  return label >= 0 ? label : reader.find_field("cls");
}

// The label of a sample with its class name, or why it cannot be read.
struct ShownLabel {
  std::optional<int64_t> number;
  std::string text;
};

ShownLabel label_of(const runtime::Reader& reader, int64_t sample, int field) {
  runtime::FieldValue value;
  if (const Status read = reader.read(sample, field, value); !read.ok()) {
    return {.text = read.error().message};
  }
  int64_t label = 0;
  if (value.dtype == DType::kI64 && value.bytes.size() == sizeof label) {
    std::memcpy(&label, value.bytes.data(), sizeof label);
  } else if (value.dtype == DType::kI32 && value.bytes.size() == sizeof(int32_t)) {
    int32_t narrow = 0;
    std::memcpy(&narrow, value.bytes.data(), sizeof narrow);
    label = narrow;
  } else {
    return {};
  }
  const std::string name = label >= 0 && label < reader.classes() ? reader.class_name(label) : "";
  return {.number = label, .text = std::to_string(label) + (name.empty() ? "" : "  " + name)};
}

// The sizes of the pictures in runtime::looked_samples, from their headers.
struct Pictures {
  int64_t looked = 0;
  int64_t broken = 0;
  runtime::PictureHeader smallest, largest;  // compared by the number of pixels
};

Pictures look_at_pictures(const runtime::Reader& reader, int field) {
  Pictures found;
  runtime::FieldValue value;
  for (const int64_t sample : runtime::looked_samples(reader.samples())) {
    ++found.looked;
    const Status read = reader.read(sample, field, value);
    const auto header = read.ok() ? runtime::read_picture_header(value.bytes) : read.error();
    if (!header.ok()) {
      ++found.broken;
      continue;
    }
    const auto pixels = [](const runtime::PictureHeader& one) { return one.height * one.width; };
    if (pixels(found.smallest) == 0 || pixels(*header) < pixels(found.smallest)) {
      found.smallest = *header;
    }
    if (pixels(*header) > pixels(found.largest)) {
      found.largest = *header;
    }
  }
  return found;
}

std::string size_of(const runtime::PictureHeader& picture) {
  return fmt::format("{} x {}", picture.width, picture.height);
}

// "6 x 4 to 640 x 480 in 64 samples, 2 of them broken".
std::string text_of(const Pictures& pictures) {
  const std::string smallest = size_of(pictures.smallest), largest = size_of(pictures.largest);
  const std::string range = pictures.looked == pictures.broken ? ""
                            : smallest == largest              ? smallest + " "
                                                               : smallest + " to " + largest + " ";
  return range + "in " + counted(pictures.looked, "sample") +
         (pictures.broken == 0 ? "" : fmt::format(", {} of them broken", pictures.broken));
}

// A source with everything that is printed about it.
struct Shown {
  std::string path;
  std::string call;
  std::unique_ptr<runtime::Reader> reader;
  int encoded = -1;  // field with encoded pictures; -1: there is none
  Pictures pictures;
  int label = -1;  // field with labels

  int64_t first(int most) const { return std::min<int64_t>(most, reader->samples()); }
};

Outcome<Shown> open_source(const std::string& path) {
  Shown shown{.path = path};
  XRUN_ASSIGN(shown.call, guess_reader(path));
  XRUN_ASSIGN(const SourceSpec source, source_of(shown.call));
  XRUN_ASSIGN(shown.reader, runtime::open_header(source));
  const auto& fields = shown.reader->fields();
  const auto encoded = std::ranges::find(fields, true, &Field::encoded);
  if (encoded != fields.end()) {
    shown.encoded = static_cast<int>(encoded - fields.begin());
    shown.pictures = look_at_pictures(*shown.reader, shown.encoded);
  }
  shown.label = label_field(*shown.reader);
  return shown;
}

std::string row(std::string_view name, const std::string& what) {
  return fmt::format("  {:<10}{}\n", name, printable_line(what));
}

std::string as_text(const Shown& shown, int samples) {
  const runtime::Reader& reader = *shown.reader;
  std::string fields;
  for (const Field& field : reader.fields()) {
    fields += fmt::format("{}{} {}", fields.empty() ? "" : ", ", field.name, type_of(field));
  }
  std::string out = printable_line(shown.path) + "\n" + row("reader", shown.call) + row("holds", reader.describe()) +
                    row("fields", fields);
  if (shown.encoded >= 0) {
    out += row("pictures", text_of(shown.pictures));
  }
  out += row("memory", format_bytes(reader.memory()) + " while it is open");
  for (int64_t i = 0; i < shown.first(samples); ++i) {
    const std::string label = shown.label < 0 ? "" : label_of(reader, i, shown.label).text;
    out += row(i == 0 ? "first" : "", reader.sample_name(i) + (label.empty() ? "" : "   " + label));
  }
  return out;
}

std::string as_json(const Shown& shown, int samples) {
  const runtime::Reader& reader = *shown.reader;
  nlohmann::ordered_json json{{"v", 1},
                              {"file", shown.path},
                              {"reader", shown.call},
                              {"holds", reader.describe()},
                              {"samples", reader.samples()},
                              {"classes", reader.classes()},
                              {"memory", reader.memory()}};
  json["fields"] = nlohmann::ordered_json::array();
  for (const Field& field : reader.fields()) {
    json["fields"].push_back({{"name", field.name}, {"type", type_of(field)}});
  }
  if (shown.encoded >= 0) {
    const Pictures& found = shown.pictures;
    json["pictures"] = {{"samples", found.looked},
                        {"broken", found.broken},
                        {"smallest", {found.smallest.width, found.smallest.height}},
                        {"largest", {found.largest.width, found.largest.height}}};
  }
  json["first"] = nlohmann::ordered_json::array();
  for (int64_t i = 0; i < shown.first(samples); ++i) {
    json["first"].push_back({{"name", reader.sample_name(i)}});
    if (shown.label >= 0) {
      const ShownLabel label = label_of(reader, i, shown.label);
      json["first"].back()[label.number ? "label" : "fault"] =
          label.number ? nlohmann::ordered_json(*label.number) : nlohmann::ordered_json(label.text);
    }
  }
  return json_line(json);
}

}  // namespace

Outcome<int> run_data_show(const GlobalOptions& options, const DataShowArgs& args) {
  const Console console(options);
  int exit = 0;
  for (const std::string& path : args.sources) {
    const Outcome<Shown> shown = open_source(path);
    if (!shown.ok()) {
      exit = std::max(exit, console.fail(shown.error()));
      continue;
    }
    console.out(console.json() ? as_json(*shown, args.samples) : as_text(*shown, args.samples));
    console.report(as_warnings(shown->reader->warnings()), {});
  }
  return exit;
}

}  // namespace xrun::cli
