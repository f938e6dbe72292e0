#include "lang/elaborate/scope.h"

namespace xrun::lang {

std::optional<std::string> TensorNames::leaf(std::string_view name, std::string_view label) {
  Level& level = scopes_.back();
  std::string leaf(label);
  if (!label.empty()) {
    if (!level.taken.insert(leaf).second) {
      return std::nullopt;
    }
  } else {
    do {
      const int count = ++level.counts[std::string(name)];
      leaf = count == 1 ? std::string(name) : std::string(name) + "_" + std::to_string(count);
    } while (!level.taken.insert(leaf).second);
  }
  return level.path.empty() ? leaf : level.path + "." + leaf;
}

int TensorNames::count(std::string_view name) const {
  const auto at = scopes_.back().counts.find(name);
  return at == scopes_.back().counts.end() ? 0 : at->second;
}

}  // namespace xrun::lang
