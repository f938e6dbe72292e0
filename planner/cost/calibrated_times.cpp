#include "planner/cost/calibrated_times.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "graph/cost.h"

namespace xrun::planner {
namespace {

// A formula whose ratios are interpolated. Only the proportion of its two rates matters: 16 operations take as long as
// a byte.
constexpr double kOperationsOfByte = 16;
double formula(Flops flops, double bytes) { return std::max(flops / kOperationsOfByte, bytes); }

constexpr size_t kNearest = 4;  // number of measured calls between which the ratio is interpolated

int64_t height_of(const Graph& graph, ValueId value) {
  const TensorType& type = graph.value(value).type;
  return type.dims.size() == 4 ? type.dims[2] : 1;
}

// Returns "1x1" for a window of one element, and "_strided" if the input is higher than the result.
std::string form_of_window(const Graph& graph, const Node& node) {
  const bool of_weight = node.op->name == "conv.dw";
  const bool of_input = node.op->name == "conv.dx";
  const TensorType& weight = graph.value(of_weight ? node.outputs[0] : node.inputs[1]).type;
  const ValueId large = of_input ? node.outputs[0] : node.inputs[0];
  const ValueId small = of_weight ? node.inputs[1] : of_input ? node.inputs[0] : node.outputs[0];
  const bool is_pixel = weight.dims.size() == 4 && weight.dims[2] * weight.dims[3] == 1;
  const bool by_channel = weight.dims.size() == 4 && weight.dims[1] == 1 && weight.dims[0] > 1 &&
                          graph.value(large).type.dims[1] == weight.dims[0];
  return std::string(by_channel ? "_depthwise"
                     : is_pixel ? "1x1"
                                : "") +
         (height_of(graph, large) > height_of(graph, small) + 2 ? "_strided" : "");
}

}  // namespace

std::string call_kind(const Graph& graph, const Node& node) {
  std::string name(node.op->name);
  const bool window = name == "conv" || name == "dwconv" || name == "conv.dx" || name == "conv.dw";
  if (window) {
    const std::string pass = name.ends_with(".dx") ? "_dx" : name.ends_with(".dw") ? "_dw" : "";
    return "conv" + form_of_window(graph, node) + pass;
  }
  std::ranges::replace(name, '.', '_');
  return name;
}

// The distance of two calls is that of their operations for each byte, since these depend on the shape, and less of the
// size, since an operator reaches about the same rate for all large calls of a shape. The nearest calls count by the
// inverse square of their distance.
Seconds calibrated_time(const std::vector<CallTime>& measured, Flops flops, double bytes) {
  struct Near {
    double distance = 0;
    double ratio = 0;
  };
  std::vector<Near> near;
  for (const CallTime& call : measured) {
    const double by_bytes = std::log((bytes + 1) / (call.bytes + 1));
    const double by_shape = std::log((flops + 1) / (call.flops + 1)) - by_bytes;
    near.push_back({4 * by_shape * by_shape + 0.25 * by_bytes * by_bytes,
                    std::log(call.time / std::max(formula(call.flops, call.bytes), 1.0))});
  }
  const size_t count = std::min(kNearest, near.size());
  std::ranges::partial_sort(near, near.begin() + static_cast<std::ptrdiff_t>(count), {}, &Near::distance);
  double sum = 0;
  double weights = 0;
  for (size_t i = 0; i < count; ++i) {
    const double weight = 1 / (near[i].distance + 1e-3);
    sum += weight * near[i].ratio;
    weights += weight;
  }
  return std::max(formula(flops, bytes), 1.0) * std::exp(sum / weights);
}

void use_calibration(std::shared_ptr<const Calibration> calibration, const Module& module, int workers,
                     KernelFacts& facts) {
  const double slow_down = std::max(1.0, Calibration::of_count(calibration->slow_down, workers, 1));
  const Graph& graph = module.graph;
  for (size_t i = 0; i < facts.nodes.size() && i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const bool narrow = !node.inputs.empty() && graph.value(node.inputs[0]).type.dtype == DType::kBF16;
    if (node.op->head != nullptr && facts.head_seconds_per_mac == 0) {
      const Flops rate = narrow ? calibration->head_bf16 : calibration->head_f32;
      facts.head_seconds_per_mac = rate > 0 ? slow_down * 2 / rate : 0;
    }
    const CallTimes& calls = narrow ? calibration->bf16 : calibration->f32;
    const auto measured = calls.find(call_kind(graph, node));
    if (!facts.nodes[i].time && measured != calls.end()) {
      const OpCost cost = call_cost(graph, node, module.train.norm_rows);
      facts.nodes[i].time = slow_down * calibrated_time(measured->second, cost.flops, static_cast<double>(cost.bytes));
    }
  }
  if (!facts.measured && calibration->update > 0) {
    facts.bytes_per_second = calibration->update;
  }
  if (facts.filling_workers == 0 && !calibration->bandwidth.empty()) {
    facts.filling_workers = Calibration::of_count(calibration->bandwidth, workers, 0) / calibration->bandwidth.front();
  }
  facts.calibration = std::move(calibration);
}

}  // namespace xrun::planner
