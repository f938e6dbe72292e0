#include "runtime/interchange/weights/sharded_weights.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/counted.h"
#include "graph/base/errors.h"
#include "runtime/formats/bounded_json.h"

namespace xrun::runtime {
namespace {

constexpr Bytes kMostIndex = 100'000'000;  // bytes of the JSON

Error bad_index(std::string_view path, std::string_view why) {
  return content_error("XG0412", {"{}: {}", path, why}, "get the index and all of its shards again, from one place");
}

class ShardedWeights final : public WeightFile {
 public:
  void add(std::unique_ptr<WeightFile> shard) {
    for (size_t i = 0; i < shard->tensors().size(); ++i) {
      tensors_.push_back(shard->tensors()[i]);
      places_.push_back({shards_.size(), i});
    }
    others_.insert(others_.end(), shard->others().begin(), shard->others().end());
    shards_.push_back(std::move(shard));
    const std::string_view kind = shards_[0]->format();
    format_ = fmt::format("{}, {}, {}", kind.substr(0, kind.rfind(',')), counted(std::ssize(shards_), "shard"),
                          counted(std::ssize(tensors_), "tensor"));
  }

  const std::string& format() const override { return format_; }
  const std::vector<WeightTensor>& tensors() const override { return tensors_; }
  const std::vector<std::string>& others() const override { return others_; }
  Status read(size_t index, int64_t first, int64_t count, float* to) const override {
    const Place& place = places_[index];
    return shards_[place.shard]->read(place.index, first, count, to);
  }

 private:
  struct Place {
    size_t shard;
    size_t index;
  };

  std::vector<std::unique_ptr<WeightFile>> shards_;
  std::vector<WeightTensor> tensors_;
  std::vector<Place> places_;
  std::vector<std::string> others_;
  std::string format_;
};

// The names of the tensors of each shard.
using Shards = std::map<std::string, std::vector<std::string>>;

Result<Shards> parse_index(const RandomFile& index) {
  if (index.size() > kMostIndex) {
    return bad_index(index.path(), fmt::format("an index of {} bytes; at most {} are read", index.size(), kMostIndex));
  }
  std::string text(static_cast<size_t>(index.size()), '\0');
  XRUN_TRY(index.read(0, std::as_writable_bytes(std::span(text))));
  const nlohmann::json root = parse_json(text);
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (!root.is_object() || map == root.end() || !map->is_object()) {
    return bad_index(index.path(), "not an index of shards: it has no object \"weight_map\"");
  }
  Shards shards;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return bad_index(index.path(), fmt::format("\"weight_map\" has no file name for {}", tensor));
    }
    shards[file.get<std::string>()].push_back(tensor);
  }
  return shards.empty() ? Result<Shards>(bad_index(index.path(), "\"weight_map\" is empty")) : std::move(shards);
}

// Compares the tensors of a shard, also those that are not read, with those that the index lists for it.
Status check_shard(const RandomFile& index, const std::string& name, std::vector<std::string> listed,
                   const WeightFile& shard) {
  std::vector<std::string> found;
  for (const WeightTensor& tensor : shard.tensors()) {
    found.push_back(tensor.name);
  }
  for (const std::string& other : shard.others()) {
    found.push_back(other.substr(0, other.rfind(" (")));
  }
  std::ranges::sort(listed);
  std::ranges::sort(found);
  std::vector<std::string> missing;
  std::ranges::set_difference(listed, found, std::back_inserter(missing));
  if (!missing.empty()) {
    return bad_index(index.path(), fmt::format("{} is not in {}, as the index says", missing[0], name));
  }
  std::vector<std::string> foreign;
  std::ranges::set_difference(found, listed, std::back_inserter(foreign));
  if (!foreign.empty()) {
    return bad_index(index.path(), fmt::format("{} has {}, which the index does not list for it, so it is a shard of "
                                               "another set",
                                               name, foreign[0]));
  }
  return {};
}

}  // namespace

Result<std::string> file_in_folder(const std::string& path, const std::string& name) {
  bool escapes = name.empty() || name.front() == '/' || name.find('\0') != std::string::npos;
  for (size_t begin = 0; begin <= name.size() && !escapes;) {
    const size_t end = std::min(name.find('/', begin), name.size());
    escapes = name.substr(begin, end - begin) == "..";
    begin = end + 1;
  }
  if (escapes) {
    return content_error("XG0412", {"{}: names the file \"{}\", which is outside of its folder", path, name},
                         "put all files into one folder, and correct the name; if you do not know the file's origin, "
                         "do not use it");
  }
  return path.substr(0, path.rfind('/') + 1) + name;
}

Result<std::unique_ptr<WeightFile>> open_shards(const RandomFile& index, const OpenShard& open, StopFlag stop) {
  XRUN_ASSIGN(const Shards shards, parse_index(index));
  auto all = std::make_unique<ShardedWeights>();
  for (const auto& [name, tensors] : shards) {
    XRUN_TRY(check_stop(stop));
    XRUN_ASSIGN(const std::string path, file_in_folder(index.path(), name));
    XRUN_ASSIGN(auto shard, open(path));
    XRUN_TRY(check_shard(index, name, tensors, *shard));
    all->add(std::move(shard));
  }
  return std::unique_ptr<WeightFile>(std::move(all));
}

}  // namespace xrun::runtime
