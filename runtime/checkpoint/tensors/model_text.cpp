// {"files": [{"path": "/w/m.xgraph", "text": "xgraph 1 ..."}, ...], "options": [{"name": "file", "value": "..."}, ...]}
#include "runtime/checkpoint/tensors/model_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "graph/base/errors.h"
#include "graph/base/xxh128.h"
#include "runtime/checkpoint/files/read_file.h"
#include "runtime/formats/bounded_json.h"

namespace xrun::runtime {
namespace {

using nlohmann::ordered_json;
using Pairs = std::vector<std::pair<std::string, std::string>>;

ordered_json list_of(const Pairs& pairs, const char* first, const char* second) {
  ordered_json list = ordered_json::array();
  for (const auto& [a, b] : pairs) {
    list.push_back(ordered_json{{first, a}, {second, b}});
  }
  return list;
}

// Returns the pairs in a JSON list of objects; nullopt if the list has another form.
std::optional<Pairs> pairs_of(const nlohmann::json& object, const char* key, const char* first, const char* second) {
  const auto list = object.find(key);
  if (list == object.end() || !list->is_array()) {
    return std::nullopt;
  }
  Pairs pairs;
  for (const nlohmann::json& item : *list) {
    const bool good = item.is_object() && item.contains(first) && item.contains(second) && item[first].is_string() &&
                      item[second].is_string();
    if (!good) {
      return std::nullopt;
    }
    pairs.emplace_back(item[first].get<std::string>(), item[second].get<std::string>());
  }
  return pairs;
}

}  // namespace

std::string print_model_text(const ModelText& text) {
  const ordered_json object{{"files", list_of(text.files, "path", "text")},
                            {"options", list_of(text.options, "name", "value")}};
  return object.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

bool has_model_text(const Manifest& manifest) {
  return std::ranges::find(manifest.files, kModelFile, &ManifestFile::name) != manifest.files.end();
}

Result<ModelText> read_model_text(const std::string& path, const Manifest& manifest) {
  const auto entry = std::ranges::find(manifest.files, kModelFile, &ManifestFile::name);
  if (entry == manifest.files.end()) {
    return content_error("XG0716",
                         {"{} was written by an earlier xrun, which did not save the text of its model", path},
                         "name the model before the checkpoint");
  }
  const std::string name = path + "/" + entry->name;
  std::string text;
  XRUN_TRY(stream_file(name, entry->bytes, [&](std::span<const std::byte> bytes) -> Status {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }));
  if (xxh128(std::as_bytes(std::span(text))) != entry->xxh3) {
    return damaged(name, "does not match its digest");
  }
  const nlohmann::json object = parse_json(text);
  auto files = object.is_object() ? pairs_of(object, "files", "path", "text") : std::nullopt;
  auto options = object.is_object() ? pairs_of(object, "options", "name", "value") : std::nullopt;
  constexpr size_t kMostFiles = 1000;  // limit for the files that a model may import
  if (!files || files->empty() || files->size() > kMostFiles || !options) {
    return damaged(name, "is not the text of a model");
  }
  return ModelText{std::move(*files), std::move(*options)};
}

}  // namespace xrun::runtime
