// `xrun data show`: opens files of data with the reader that fits them, and describes what they hold.
// Tests: tests/runtime/cli/commands/data_test.cpp
#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "graph/base/counted.h"
#include "graph/base/units.h"
#include "graph/base/utf8.h"
#include "runtime/cli/commands/data.h"
#include "runtime/cli/console/console.h"
#include "runtime/cli/sources/named_source.h"
#include "runtime/cli/sources/run_sources.h"
#include "runtime/data/open_reader.h"
#include "runtime/formats/pictures/decode.h"

namespace xrun::cli {
namespace {

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

// The label of a sample with its class name, or why it cannot be read.
struct ShownLabel {
  std::optional<int64_t> number;
  std::string text;
};

ShownLabel label_of(const runtime::Reader& reader, int64_t sample, int field) {
  runtime::FieldValue value;
  const auto label = read_label(reader, sample, field, value);
  if (!label.ok()) {
    return {.text = label.error().message};
  }
  if (!*label) {
    return {};
  }
  const int64_t number = **label;
  const std::string name = number >= 0 && number < reader.classes() ? reader.class_name(number) : "";
  return {.number = number, .text = std::to_string(number) + (name.empty() ? "" : "  " + name)};
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
  XRUN_ASSIGN(const NamedSource source, find_source(path));
  shown.call = source.call;
  XRUN_ASSIGN(shown.reader, runtime::open_header(source.spec));
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

void add_show_flags(CLI::App& command, DataShowArgs& args) {
  command
      .add_option("sources", args.sources,
                  "files, directories, patterns of tar shards, or calls of readers: 'csv(\"a.csv\", header=true)'")
      ->required()
      ->type_name("FILE...");
  command.add_option("--samples", args.samples, "number of first samples to print (5)")
      ->check(CLI::Range(0, 1'000'000));
}

}  // namespace xrun::cli
