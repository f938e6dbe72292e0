#include "runtime/checkpoint/files/manifest_scales.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {
namespace {

constexpr size_t kMostInputs = 4096;  // repeated names are searched one by one

bool read_numbers(Entries& entries, const char* name, std::vector<double>& to) {
  const Json* list = entries.list(name);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    if (!(*list)[i].is_number()) {
      return false;
    }
    to.push_back((*list)[i].get<double>());
  }
  return list != nullptr && std::ranges::all_of(to, [](double x) { return std::isfinite(x); });
}

}  // namespace

nlohmann::ordered_json scales_json(const InputScales& scales) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const InputScale& one : scales) {
    list.push_back({{"input", one.input}, {"means", one.means}, {"deviations", one.deviations}});
  }
  return list;
}

Result<InputScales> read_scales(Entries& entries, std::string_view name) {
  InputScales scales;
  const Json* list = entries.list("scales");
  if (list == nullptr || list->empty() || list->size() > kMostInputs) {
    return damaged(name, "has a malformed list of standardized inputs");
  }
  for (size_t i = 0; i < list->size(); ++i) {
    Entries one((*list)[i]);
    InputScale scale;
    one.read("input", scale.input);
    const bool good = read_numbers(one, "means", scale.means) && read_numbers(one, "deviations", scale.deviations) &&
                      one.good() && scale.means.size() == scale.deviations.size() && !scale.input.empty() &&
                      std::ranges::all_of(scale.deviations, [](double deviation) { return deviation > 0; });
    if (!good || find_scale(scales, scale.input) != nullptr) {
      return damaged(name, fmt::format("has a broken entry {} of its standardized inputs", i));
    }
    scales.push_back(std::move(scale));
  }
  return scales;
}

}  // namespace xrun::runtime
