// Tests: tests/runtime/interchange/weights/pickle_file_test.cpp
#include "runtime/interchange/weights/paddle_parts.h"

#include <fmt/format.h>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/interchange/weights/pickled_tensors.h"

namespace xrun::runtime {
namespace {

class Joiner {
 public:
  Joiner(const Pickle& pickle, PickleId table, WeightContents& to)
      : pickle_(pickle), table_(table), to_(to), is_removed_(to.tensors.size(), false) {
    for (size_t i = 0; i < to.tensors.size(); ++i) {
      places_.emplace(to.tensors[i].name, i);
    }
  }

  // `info`: the shape and the parts of an array.
  Status join(const std::string& name, PickleId info) {
    std::vector<int64_t> shape;
    std::vector<size_t> parts;
    const std::vector<PickleId>& items = pickle_[info].items;
    for (size_t i = 0; pickle_[info].kind == PickleKind::kDict && i + 1 < items.size(); i += 2) {
      XRUN_ASSIGN(const std::string key, pickled_key(pickle_, items[i]));
      for (const PickleId item : pickle_[items[i + 1]].items) {
        if (key == "OriginShape") {
          shape.push_back(pickle_[item].number);
          continue;
        }
        XRUN_ASSIGN(const std::string part, pickled_key(pickle_, item));
        const auto found = places_.find(part);
        if (found == places_.end()) {
          return fault(name, fmt::format("the part {} is missing", part));
        }
        parts.push_back(found->second);
        places_.erase(found);
      }
    }
    return replace(name, std::move(shape), parts);
  }

  // Removes the parts that are joined.
  void finish() {
    size_t kept = 0;
    for (size_t i = 0; i < to_.tensors.size(); ++i) {
      if (!is_removed_[i]) {
        std::swap(to_.tensors[kept], to_.tensors[i]);
        std::swap(to_.places[kept], to_.places[i]);
        ++kept;
      }
    }
    to_.tensors.resize(kept);
    to_.places.resize(kept);
  }

 private:
  Error fault(std::string_view name, std::string_view why) const {
    return pickle_.fault(table_, fmt::format("{} is split into parts, but {}", name, why));
  }

  Status replace(const std::string& name, std::vector<int64_t> shape, const std::vector<size_t>& parts) {
    if (parts.empty()) {
      return fault(name, "it has none");
    }
    StoredTensor& whole = to_.places[parts[0]];
    std::vector<Source> sources;
    for (const size_t part : parts) {
      const StoredTensor& tensor = to_.places[part];
      if (tensor.type != whole.type || tensor.big_endian != whole.big_endian || !tensor.strides.empty()) {
        return fault(name, "they differ in their types");
      }
      sources.push_back(tensor.source);
      is_removed_[part] = part != parts[0];
    }
    whole.source = joined_bytes(std::move(sources));
    whole.dims = shape;
    to_.tensors[parts[0]] = {.name = name, .dtype = whole.dtype, .dims = std::move(shape)};
    XRUN_TRY(check_extent(whole, fmt::format("{} in {}", name, to_.path)));
    const bool fits = to_.tensors[parts[0]].elements() * bytes_of(whole.type) == whole.source->bytes();
    return fits ? Status() : fault(name, "they have more elements than its shape");
  }

  const Pickle& pickle_;
  PickleId table_;
  WeightContents& to_;
  std::unordered_map<std::string, size_t> places_;
  std::vector<bool> is_removed_;
};

}  // namespace

Status join_paddle_parts(const Pickle& pickle, PickleId table, WeightContents& to) {
  Joiner joiner(pickle, table, to);
  const PickleValue& arrays = pickle[table];
  for (size_t i = 0; arrays.kind == PickleKind::kDict && i + 1 < arrays.items.size(); i += 2) {
    XRUN_ASSIGN(const std::string name, pickled_key(pickle, arrays.items[i]));
    XRUN_TRY(joiner.join(name, arrays.items[i + 1]));
  }
  joiner.finish();
  return {};
}

}  // namespace xrun::runtime
