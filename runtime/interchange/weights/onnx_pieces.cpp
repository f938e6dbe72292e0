// Tests: tests/runtime/interchange/weights/onnx_pieces_test.cpp
#include "runtime/interchange/weights/onnx_pieces.h"

#include <fmt/format.h>
#include <set>
#include <unordered_map>
#include <utility>

#include "runtime/formats/open_file.h"

namespace xrun::runtime {
namespace {

bool are_numbered(const std::vector<std::string>& names) {
  for (size_t i = 1; i < names.size(); ++i) {
    if (names[i] != fmt::format("{}_{}", names[0], i + 1)) {
      return false;
    }
  }
  return true;
}

class Joiner {
 public:
  explicit Joiner(WeightContents& to) : to_(to), is_removed_(to.tensors.size(), false) {
    for (size_t i = 0; i < to.tensors.size(); ++i) {
      places_.emplace(to.tensors[i].name, i);
    }
  }

  Status join(const std::vector<std::string>& names) {
    if (!joined_.insert(names).second) {
      return {};  // a network that computes its head for several inputs uses the pieces several times
    }
    std::vector<size_t> parts;
    for (const std::string& name : names) {
      const auto found = places_.find(name);
      if (found == places_.end()) {
        return {};  // a result of other nodes
      }
      parts.push_back(found->second);
    }
    StoredTensor& whole = to_.places[parts[0]];
    std::vector<int64_t> dims = whole.dims;
    std::vector<Source> sources;
    for (const size_t part : parts) {
      const StoredTensor& piece = to_.places[part];
      if (is_removed_[part] || dims.empty() || piece.type != whole.type || piece.dims.size() != dims.size() ||
          (dims.size() > 1 && piece.dims[1] != dims[1])) {
        return broken_file(to_.path, fmt::format("{} and {} are pieces of one matrix, but their rows differ", names[0],
                                                 to_.tensors[part].name));
      }
      if (part != parts[0] && __builtin_add_overflow(dims[0], piece.dims[0], &dims[0])) {
        return broken_file(to_.path, fmt::format("the pieces of {} have too many rows", names[0]));
      }
      sources.push_back(piece.source);
      is_removed_[part] = part != parts[0];
    }
    whole.source = joined_bytes(std::move(sources));
    whole.dims = dims;
    to_.tensors[parts[0]].dims = std::move(dims);
    return check_extent(whole, fmt::format("{} in {}", names[0], to_.path));
  }

  // Removes the pieces that are part of another one.
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
  WeightContents& to_;
  std::vector<bool> is_removed_;
  std::set<std::vector<std::string>> joined_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

Status join_onnx_pieces(std::span<const std::vector<std::string>> pieces, WeightContents& to) {
  Joiner joiner(to);
  for (const std::vector<std::string>& names : pieces) {
    if (are_numbered(names)) {
      XRUN_TRY(joiner.join(names));
    }
  }
  joiner.finish();
  return {};
}

}  // namespace xrun::runtime
