// Tests: tests/runtime/checkpoint/tensors/checkpoint_test.cpp
#include "runtime/checkpoint/files/manifest.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/json_entries.h"
#include "runtime/checkpoint/files/manifest_scales.h"
#include "runtime/checkpoint/files/own_files.h"
#include "runtime/formats/bounded_json.h"

namespace xrun::runtime {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kFormat = 7;
constexpr size_t kMostClassInputs = 4096;
constexpr size_t kMostLibraries = 64;

std::string text_of(const ordered_json& object) {
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Status check_classes(const ManifestClasses& classes, std::string_view name) {
  if (!classes.xxh3.empty() && !is_digest(classes.xxh3)) {
    return damaged(name, "has a malformed digest of class names");
  }
  return classes.named >= 0 && (classes.named > 0) == !classes.xxh3.empty()
             ? Status()
             : damaged(name, fmt::format("has {} named classes, but {} file of names", classes.named,
                                         classes.xxh3.empty() ? "no" : "a"));
}

// Reads the number of classes and the names' digest of each input.
Status read_tables(Entries& entries, Manifest& manifest, std::string_view name) {
  const Json* tables = entries.list("classes");
  if (tables != nullptr && tables->size() > kMostClassInputs) {  // repeated names are searched one by one
    return damaged(name, fmt::format("has classes for {} inputs, which are too many", tables->size()));
  }
  for (size_t i = 0; tables != nullptr && i < tables->size(); ++i) {
    Entries one((*tables)[i]);
    ManifestClasses& classes = manifest.classes.emplace_back();
    one.read("input", classes.input);
    one.read("named", classes.named);
    one.read("xxh3", classes.xxh3);
    const bool repeated = std::ranges::count(manifest.classes, classes.input, &ManifestClasses::input) > 1;
    if (!one.good() || classes.input.empty() || repeated) {
      return damaged(name, fmt::format("has a broken entry {} of its classes", i));
    }
    XRUN_TRY(check_classes(classes, name));
  }
  return {};
}

Status read_files(Entries& entries, Manifest& manifest, std::string_view name) {
  const Json* files = entries.list("files");
  for (size_t i = 0; files != nullptr && i < files->size(); ++i) {
    Entries one((*files)[i]);
    ManifestFile& file = manifest.files.emplace_back();
    one.read("name", file.name);
    one.read("bytes", file.bytes);
    one.read("xxh3", file.xxh3);
    const bool inside = !file.name.empty() && file.name.find('/') == std::string::npos && file.name != "..";
    if (!one.good() || !inside || file.bytes < 0) {
      return damaged(name, fmt::format("has a broken entry for file {}", i));
    }
  }
  return {};
}

// Reads the digest of the class names, or in format 1 the names themselves; they belong to one input.
Status read_classes(Entries& entries, Manifest& manifest, std::string_view name) {
  if (manifest.format > 4) {
    return read_tables(entries, manifest, name);
  }
  ManifestClasses& classes = manifest.classes.emplace_back();
  if (manifest.format > 1) {
    entries.read("classes_named", classes.named);
    entries.read("class_names_xxh3", classes.xxh3);
    return check_classes(classes, name);
  }
  const Json* names = entries.list("class_names");
  for (size_t i = 0; names != nullptr && i < names->size(); ++i) {
    if (!(*names)[i].is_string()) {
      return damaged(name, "has a class name that is not a string");
    }
    manifest.class_names.push_back((*names)[i].get<std::string>());
  }
  classes.named = static_cast<int64_t>(manifest.class_names.size());
  return {};
}

ordered_json classes_json(const std::vector<ManifestClasses>& classes) {
  ordered_json list = ordered_json::array();
  for (const ManifestClasses& one : classes) {
    list.push_back(ordered_json{{"input", one.input}, {"named", one.named}, {"xxh3", one.xxh3}});
  }
  return list;
}

ordered_json history_json(const std::vector<HistoryEntry>& history) {
  ordered_json list = ordered_json::array();
  for (const HistoryEntry& entry : history) {
    list.push_back(
        ordered_json{{"until", entry.until}, {"math_digest", entry.math_digest}, {"changes", entry.changes}});
  }
  return list;
}

ordered_json records_json(const std::vector<Record>& records) {
  ordered_json list = ordered_json::array();
  for (const Record& record : records) {
    ordered_json best = ordered_json::array();
    for (const BestStep& one : record.best) {
      best.push_back(ordered_json{{"step", one.step}, {"value", one.value}});
    }
    list.push_back(ordered_json{
        {"metric", record.metric}, {"highest", record.highest}, {"keep", record.keep}, {"best", std::move(best)}});
  }
  return list;
}

// Reads the entries about class rows in files. A head's name is part of a file name, so it must not contain `/`.
Status read_rows(Entries& entries, Manifest& manifest, std::string_view name) {
  const Json* rows = entries.list("rows");
  for (size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
    Entries one((*rows)[i]);
    ManifestRows& entry = manifest.rows.emplace_back();
    one.read("head", entry.head);
    one.read("rows", entry.rows);
    one.read("log", entry.log);
    const bool named = !entry.head.empty() && entry.head.find('/') == std::string::npos;
    if (!one.good() || !named || !is_digest(entry.rows) || !is_digest(entry.log)) {
      return damaged(name, fmt::format("has a broken entry {} of class rows", i));
    }
  }
  return rows == nullptr || !rows->empty() ? Status() : damaged(name, "has an empty list of class rows");
}

Status read_history(Entries& entries, Manifest& manifest, std::string_view name) {
  const Json* history = entries.list("history");
  for (size_t i = 0; history != nullptr && i < history->size(); ++i) {
    Entries one((*history)[i]);
    HistoryEntry& entry = manifest.history.emplace_back();
    one.read("until", entry.until);
    one.read("math_digest", entry.math_digest);
    const Json* changes = one.list("changes");
    for (size_t k = 0; changes != nullptr && k < changes->size(); ++k) {
      const Json& text = (*changes)[k];
      entry.changes.push_back(text.is_string() ? text.get<std::string>() : "");
    }
    if (!one.good()) {
      return damaged(name, fmt::format("has a broken entry {} of its history", i));
    }
  }
  return {};
}

Status read_records(Entries& entries, Manifest& manifest, std::string_view name) {
  const Json* records = entries.list("records");
  for (size_t i = 0; records != nullptr && i < records->size(); ++i) {
    Entries one((*records)[i]);
    Record& record = manifest.records.emplace_back();
    one.read("metric", record.metric);
    one.read("highest", record.highest);
    one.read("keep", record.keep);
    const Json* best = one.list("best");
    bool good = best != nullptr;
    for (size_t k = 0; good && k < best->size(); ++k) {
      Entries step((*best)[k]);
      BestStep& kept = record.best.emplace_back();
      step.read("step", kept.step);
      step.read("value", kept.value);
      good = step.good() && kept.step >= 0;
    }
    if (!good) {
      return damaged(name, fmt::format("has a broken record {}", i));
    }
  }
  return {};
}

Result<LossScale> read_loss_scale(const Json& object, int64_t step, std::string_view name) {
  LossScale scale;
  const auto at = object.find("loss_scale");
  bool good = at != object.end() && at->is_object();
  if (good) {
    Entries entries(*at);
    entries.read("scale", scale.scale);
    entries.read("good_steps", scale.good_steps);
    entries.read("skipped_steps", scale.skipped_steps);
    good = entries.good() && is_possible(scale, step);
  }
  return good ? Result<LossScale>(scale) : damaged(name, "has a broken scale of the loss");
}

}  // namespace

Error damaged(std::string_view name, std::string_view why) {
  return content_error("XG0710", {"{} {}", name, why}, "the checkpoint is damaged: use an older one");
}

std::string print_manifest(const Manifest& manifest) {
  ordered_json object{{"format", manifest.format},
                      {"step", manifest.step},
                      {"epoch", manifest.epoch},
                      {"samples", manifest.samples},
                      {"seed", manifest.seed},
                      {"math_digest", manifest.math_digest},
                      {"version", manifest.version},
                      {"isa", manifest.isa},
                      {"libraries", ordered_json::object()},
                      {"deterministic", manifest.deterministic},
                      {"files", ordered_json::array()}};
  if (manifest.format > 4) {
    object["classes"] = classes_json(manifest.classes);
  } else if (manifest.format > 1) {
    const ManifestClasses classes = manifest.classes.empty() ? ManifestClasses() : manifest.classes[0];
    object["classes_named"] = classes.named;
    object["class_names_xxh3"] = classes.xxh3;
  } else {
    object["class_names"] = manifest.class_names;
  }
  if (manifest.format == 6 || !manifest.scales.empty()) {
    object["scales"] = scales_json(manifest.scales);
  }
  if (manifest.format > 6) {
    const LossScale scale = manifest.loss_scale.value_or(LossScale());
    object["loss_scale"] =
        ordered_json{{"scale", scale.scale}, {"good_steps", scale.good_steps}, {"skipped_steps", scale.skipped_steps}};
  }
  if (manifest.format > 2) {
    object["history"] = history_json(manifest.history);
    object["records"] = records_json(manifest.records);
  }
  for (const ManifestRows& rows : manifest.rows) {
    object["rows"].push_back(ordered_json{{"head", rows.head}, {"rows", rows.rows}, {"log", rows.log}});
  }
  object["digest"] = "";
  for (const auto& [name, version] : manifest.libraries) {
    object["libraries"][name] = version;
  }
  for (const ManifestFile& file : manifest.files) {
    object["files"].push_back(ordered_json{{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  }
  const std::string text = text_of(object);
  object["digest"] = xxh128(std::as_bytes(std::span(text)));
  return text_of(object);
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view name) {
  const Json object = parse_json(text);
  if (!object.is_object()) {
    return damaged(name, "is not a JSON object");
  }
  Entries entries(object);
  Manifest manifest{.format = 0};
  entries.read("format", manifest.format);
  if (entries.good() && manifest.format > kFormat) {
    return content_error("XG0714", {"{} has format {}; this version knows {}", name, manifest.format, kFormat},
                         "use the xrun that wrote it, or a later one");
  }
  entries.read("step", manifest.step);
  entries.read("epoch", manifest.epoch);
  entries.read("samples", manifest.samples);
  entries.read("seed", manifest.seed);
  entries.read("math_digest", manifest.math_digest);
  entries.read("version", manifest.version);
  entries.read("isa", manifest.isa);
  entries.read("deterministic", manifest.deterministic);
  XRUN_TRY(read_files(entries, manifest, name));
  XRUN_TRY(read_classes(entries, manifest, name));
  if (manifest.format == 6 || (manifest.format > 6 && object.contains("scales"))) {
    XRUN_ASSIGN(manifest.scales, read_scales(entries, name));
  }
  if (manifest.format > 6) {
    XRUN_ASSIGN(manifest.loss_scale, read_loss_scale(object, manifest.step, name));
  }
  if (manifest.format > 2) {
    XRUN_TRY(read_history(entries, manifest, name));
    XRUN_TRY(read_records(entries, manifest, name));
  }
  if (manifest.format == 4 || (manifest.format > 4 && object.contains("rows"))) {
    XRUN_TRY(read_rows(entries, manifest, name));
  }
  if (const auto at = object.find("libraries"); at != object.end() && at->is_object()) {
    for (const auto& [key, value] : at->items()) {
      manifest.libraries[key] = value.is_string() ? value.get<std::string>() : "";
    }
  }
  if (!entries.good() || manifest.step < 0 || manifest.samples < 0) {
    return damaged(name, "lacks an entry, or has one of another type");
  }
  // The number of samples per step may vary.
  if (manifest.samples < manifest.step || (manifest.samples > 0) != (manifest.step > 0)) {
    return damaged(name, fmt::format("has {} samples for {} steps", manifest.samples, manifest.step));
  }
  if (manifest.libraries.size() > kMostLibraries) {  // inserting them into a list one by one takes quadratic time
    return damaged(name, fmt::format("lists {} libraries, which are too many", manifest.libraries.size()));
  }
  // Also rejects repeated and unknown entries, blanks and a wrong digest: the text must be exactly the printed form.
  if (print_manifest(manifest) != text) {
    return damaged(name, "is not exactly as xrun writes it");
  }
  return manifest;
}

}  // namespace xrun::runtime
