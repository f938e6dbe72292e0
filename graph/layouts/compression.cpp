#include "graph/layouts/compression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/settings/group_rules.h"

namespace xrun {
namespace {

constexpr int kWarmupParts = 4;

}  // namespace

bool is_compressed(const TrainSpec& train, const Graph& graph, ParamId param) {
  const Parameter& what = graph.param(param);
  const TensorType& type = graph.value(what.value).type;
  const std::vector<std::string>& on = train.compress.on;
  return train.compress.is_on() && what.updated() && !what.head && !what.tied.valid() && type.rank() > 1 &&
         type.elements(0, 0) <= std::numeric_limits<int32_t>::max() &&
         (on.empty() || std::ranges::any_of(on, [&](const std::string& path) { return is_below(path, what.name); }));
}

int64_t pairs_of(int64_t elements, double density) {
  const auto pairs = static_cast<int64_t>(std::ceil(static_cast<double>(elements) * density));
  return std::clamp<int64_t>(pairs, std::min<int64_t>(1, elements), elements);
}

bool selects_by_sample(int64_t elements, int64_t pairs) { return elements >= 4 * 65'536 && pairs <= elements / 32; }

double density_at(const CompressSpec& compress, double warmup, int64_t step) {
  if (static_cast<double>(step) >= warmup) {
    return compress.density;
  }
  const double part = std::floor(static_cast<double>(step) * kWarmupParts / warmup);
  return std::max(compress.density, std::pow(0.25, part + 1));
}

double largest_density(const CompressSpec& compress) {
  return compress.warmup ? density_at(compress, kWarmupParts, 0) : compress.density;
}

}  // namespace xrun
