#include "runtime/train/input_watch.h"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <span>

namespace xrun::runtime {
namespace {

double mean_of(const std::byte* data, DType dtype, size_t count) {
  double sum = 0;
  if (dtype == DType::kF32) {
    const std::span values(reinterpret_cast<const float*>(data), count);
    sum = std::accumulate(values.begin(), values.end(), 0.0);
  } else {
    for (const uint16_t bits : std::span(reinterpret_cast<const uint16_t*>(data), count)) {
      sum += static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    }
  }
  return count == 0 ? 0 : sum / static_cast<double>(count);
}

}  // namespace

std::vector<WarnEvent> look_at_inputs(const Graph& graph, const BatchView& batch, int64_t rows) {
  constexpr double kMostMean = 20;
  std::vector<WarnEvent> warnings;
  for (size_t i = 0; i < batch.inputs.size() && i < graph.inputs.size(); ++i) {
    const TensorType& type = graph.value(graph.inputs[i].value).type;
    if (batch.inputs[i] == nullptr || (type.dtype != DType::kF32 && type.dtype != DType::kBF16) || type.rank() < 2) {
      continue;
    }
    const double mean = mean_of(batch.inputs[i], type.dtype, static_cast<size_t>(type.row_elements() * rows));
    if (std::abs(mean) > kMostMean) {
      warnings.push_back(
          {"XG0816", fmt::format("`{}` has the mean {:.4g} in the first batch, and networks learn from values around "
                                 "0: put `scale(1 / 255)` or `normalize(mean=.., std=..)` into its binding",
                                 graph.inputs[i].name, mean)});
    }
  }
  return warnings;
}

}  // namespace xrun::runtime
