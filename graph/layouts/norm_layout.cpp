#include "graph/layouts/norm_layout.h"

#include <algorithm>

#include "graph/gradients.h"
#include "graph/layouts/compression.h"
#include "graph/layouts/head_shape.h"

namespace xrun {

NormLayout norm_layout(const Module& module, int senders) {
  const Graph& graph = module.graph;
  NormLayout layout;
  layout.first.assign(graph.params.size(), -1);
  layout.count.assign(graph.params.size(), 0);
  std::vector<size_t> order;
  for (size_t p = 0; p < graph.params.size(); ++p) {
    if (has_gradient(graph, ParamId(p)) && !graph.is_tied_copy(ParamId(p)) &&
        (!graph.params[p].head || module.train.clip.heads) &&
        (!is_compressed(module.train, graph, ParamId(p)) || module.train.loss_scale.is_on())) {
      order.push_back(p);
    }
  }
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return graph.params[a].name < graph.params[b].name; });
  std::vector<int64_t> class_blocks_of(graph.params.size(), 0);
  for (size_t h = 0; h < graph.heads.size(); ++h) {
    for (const ValueId input : graph.node(graph.heads[h].node).inputs) {
      if (const ParamId param = graph.value(input).param; param.valid()) {
        class_blocks_of[static_cast<size_t>(param.index)] = class_blocks(module, h).count();
      }
    }
  }
  for (const size_t p : order) {
    const TensorType& type = graph.value(graph.params[p].value).type;
    layout.first[p] = layout.total;
    layout.count[p] = graph.params[p].head ? class_blocks_of[p] : (type.elements(0, 0) + kNormChunk - 1) / kNormChunk;
    layout.total += layout.count[p] * (is_compressed(module.train, graph, ParamId(p)) ? senders : 1);
  }
  return layout;
}

}  // namespace xrun
