#include "runtime/checkpoint/manifest.h"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <span>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"

namespace xrun::runtime {
namespace {

using nlohmann::ordered_json;

constexpr int64_t kFormat = 2;

std::string text_of(const ordered_json& json) {
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// Reads typed entries; the first one that is missing or of another type is remembered.
class Entries {
 public:
  explicit Entries(const ordered_json& json) : json_(json) {}

  template <typename T>
  void read(const char* name, T& to) {
    const auto at = json_.find(name);
    if (at == json_.end() || !fits(*at, to)) {
      good_ = false;
    } else {
      to = at->template get<T>();
    }
  }
  bool good() const { return good_; }
  const ordered_json* list(const char* name) {
    const auto at = json_.find(name);
    good_ = good_ && at != json_.end() && at->is_array();
    return good_ ? &*at : nullptr;
  }

 private:
  static bool fits(const ordered_json& value, const int64_t&) {
    return value.is_number_integer() &&
           (!value.is_number_unsigned() || value.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
  }
  static bool fits(const ordered_json& value, const uint64_t&) { return value.is_number_unsigned(); }
  static bool fits(const ordered_json& value, const double&) { return value.is_number(); }
  static bool fits(const ordered_json& value, const bool&) { return value.is_boolean(); }
  static bool fits(const ordered_json& value, const std::string&) { return value.is_string(); }

  const ordered_json& json_;
  bool good_ = true;
};

// Before format 2 the names themselves.
Status read_classes(Entries& entries, Manifest& manifest, std::string_view name) {
  if (manifest.format > 1) {
    entries.read("classes_named", manifest.classes_named);
    entries.read("class_names_xxh3", manifest.class_names_xxh3);
    const std::string& digest = manifest.class_names_xxh3;
    const bool hex = digest.size() == 32 && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    return digest.empty() || hex ? Status() : damaged(name, "names its classes by something that is no digest");
  }
  const ordered_json* names = entries.list("class_names");
  for (size_t i = 0; names != nullptr && i < names->size(); ++i) {
    if (!(*names)[i].is_string()) {
      return damaged(name, "has a class name that is no string");
    }
    manifest.class_names.push_back((*names)[i].get<std::string>());
  }
  manifest.classes_named = static_cast<int64_t>(manifest.class_names.size());
  return {};
}

}  // namespace

Error damaged(std::string_view name, std::string_view why) {
  return content_error("XG0710", {"{} {}", name, why}, "the checkpoint is damaged: use an older one");
}

std::string print_manifest(const Manifest& manifest) {
  ordered_json json{{"format", manifest.format},
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
  if (manifest.format > 1) {
    json["classes_named"] = manifest.classes_named;
    json["class_names_xxh3"] = manifest.class_names_xxh3;
  } else {
    json["class_names"] = manifest.class_names;
  }
  json["digest"] = "";
  for (const auto& [name, version] : manifest.libraries) {
    json["libraries"][name] = version;
  }
  for (const ManifestFile& file : manifest.files) {
    json["files"].push_back(ordered_json{{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  }
  const std::string text = text_of(json);
  json["digest"] = xxh128(std::as_bytes(std::span(text)));
  return text_of(json);
}

Result<Manifest> parse_manifest(std::string_view text, std::string_view name) {
  const ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return damaged(name, "is no JSON object");
  }
  Entries entries(json);
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
  const ordered_json* files = entries.list("files");
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
  XRUN_TRY(read_classes(entries, manifest, name));
  if (const auto at = json.find("libraries"); at != json.end() && at->is_object()) {
    for (const auto& [key, value] : at->items()) {
      manifest.libraries[key] = value.is_string() ? value.get<std::string>() : "";
    }
  }
  if (!entries.good() || manifest.step < 0 || manifest.samples < 0) {
    return damaged(name, "lacks an entry, or has one of another type");
  }
  // Repeated and unknown entries, blanks, the digest: all of it must be what is written for these values.
  if (print_manifest(manifest) != text) {
    return damaged(name, "is not as it was written");
  }
  return manifest;
}

}  // namespace xrun::runtime
