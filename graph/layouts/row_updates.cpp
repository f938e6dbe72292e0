#include "graph/layouts/row_updates.h"

#include <algorithm>

namespace xrun {
namespace {

// The parameter that stands for all that are tied to `param`.
ParamId first_of(const Graph& graph, ParamId param) {
  const ParamId tied = graph.param(param).tied;
  return tied.valid() ? tied : param;
}

// Calls body(node, param) for each parameter that a forward node reads.
template <typename Body>
void for_each_read(const Graph& graph, const Body& body) {
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) {
      continue;
    }
    for (const ValueId input : node.inputs) {
      if (const ParamId param = graph.value(input).param; param.valid()) {
        body(node, param);
      }
    }
  }
}

}  // namespace

std::vector<ParamId> params_updated_by_row(const Graph& graph) {
  enum Reads : uint8_t { kNone, kByRow, kOther };
  IdVector<ParamId, Reads> reads(graph.params.size(), kNone);
  for_each_read(graph, [&](const Node& node, ParamId param) {
    Reads& of = reads[first_of(graph, param)];
    of = node.op->updates_rows && of != kOther ? kByRow : kOther;
  });
  std::vector<ParamId> found;
  for (size_t p = 0; p < graph.params.size(); ++p) {
    if (reads[first_of(graph, ParamId(p))] == kByRow) {
      found.emplace_back(p);
    }
  }
  return found;
}

double largest_updated_share(const Graph& graph, ParamId param, int64_t batch) {
  double numbers = 0;
  for_each_read(graph, [&](const Node& node, ParamId read) {
    if (first_of(graph, read) == first_of(graph, param)) {
      numbers += static_cast<double>(batch) * static_cast<double>(graph.value(node.inputs[0]).type.row_elements());
    }
  });
  const auto rows = static_cast<double>(graph.value(graph.param(param).value).type.dims[0]);
  return std::min(1.0, numbers / rows);
}

}  // namespace xrun
