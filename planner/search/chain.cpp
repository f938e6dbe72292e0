// Steps: separate the nodes of heads from the others, which form the chain; give each backward node the position of its
// forward node; then measure the times, the values that are kept or that cross a cut, and the parameters of each
// position. Finally the positions are found before which no cut is allowed: those after the features of a head, and
// those between operators that share a state which a step updates.
#include "planner/search/chain.h"

#include <algorithm>

#include "graph/layouts/compression.h"
#include "graph/layouts/head_values.h"
#include "graph/layouts/row_updates.h"
#include "graph/settings/optimizer_facts.h"
#include "planner/program/buffer_sizes.h"
#include "planner/program/weight_gradients.h"

namespace xrun::planner {
namespace {

// Finds the classifier heads and the nodes that read their logits.
void split_head_nodes(const Graph& graph, Chain& chain) {
  const auto of_head = values_of_heads(graph);
  chain.position.assign(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase != Phase::kForward) {
      continue;
    }
    if (of_head[node.outputs[0]]) {
      chain.head_nodes.push_back(NodeId(i));
    } else {
      chain.position[i] = chain.size();
      chain.nodes.push_back(NodeId(i));
    }
  }
  chain.backward.resize(chain.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase == Phase::kBackward) {
      const int at = chain.position[static_cast<size_t>(node.forward.index)];
      XRUN_CHECK(at >= 0, "a backward node of a head's head pass: " + node.path);
      chain.position[i] = at;
      chain.backward[static_cast<size_t>(at)].push_back(NodeId(i));
    }
  }
}

int producer_position(const Graph& graph, const Chain& chain, ValueId id) {
  const NodeId producer = graph.value(id).producer;
  return producer.valid() && graph.node(producer).phase == Phase::kForward
             ? chain.position[static_cast<size_t>(producer.index)]
             : -1;
}

// The values that backward nodes read.
std::vector<bool> read_backward(const Graph& graph) {
  std::vector<bool> read(graph.values.size(), false);
  for (const Node& node : graph.nodes) {
    for (const ValueId id : node.inputs) {
      read[static_cast<size_t>(id.index)] = read[static_cast<size_t>(id.index)] || node.phase == Phase::kBackward;
    }
  }
  return read;
}

void measure_values(const Graph& graph, int64_t g, Chain& chain) {
  const int n = chain.size();
  std::vector<int> last_use(graph.values.size(), -1);
  const std::vector<bool> kept = read_backward(graph);
  for (const Node& node : graph.nodes) {
    const int at = chain.position[static_cast<size_t>(&node - graph.nodes.data())];
    for (const ValueId id : node.inputs) {
      const auto v = static_cast<size_t>(id.index);
      last_use[v] = std::max(last_use[v], at);
    }
  }
  chain.boundary.assign(static_cast<size_t>(n) + 1, 0);
  chain.saved.assign(static_cast<size_t>(n), 0);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const int made = producer_position(graph, chain, ValueId(v));
    if (made < 0) {
      continue;
    }
    const Bytes bytes = graph.values[v].type.bytes(g, g);
    for (int i = made + 1; i <= last_use[v]; ++i) {
      chain.boundary[static_cast<size_t>(i)] += bytes;
    }
    chain.saved[static_cast<size_t>(made)] += kept[v] ? bytes : 0;
  }
}

void measure_inputs_again(const Graph& graph, Chain& chain) {
  const std::vector<bool> kept = read_backward(graph);
  std::vector<int> reader(chain.nodes.size(), -1);  // the last position for which a node was counted
  for (int i = 0; i < chain.size(); ++i) {
    Seconds& time = chain.inputs_again_time.emplace_back(0);
    std::vector<int> open{i};
    while (!open.empty() && chain.saved[static_cast<size_t>(i)] > 0) {
      const Node& node = graph.node(chain.nodes[static_cast<size_t>(open.back())]);
      open.pop_back();
      for (const ValueId id : node.inputs) {
        const int made = producer_position(graph, chain, id);
        if (made >= 0 && !kept[static_cast<size_t>(id.index)] && reader[static_cast<size_t>(made)] != i) {
          reader[static_cast<size_t>(made)] = i;
          time += chain.forward_time[static_cast<size_t>(made)];
          open.push_back(made);
        }
      }
    }
  }
}

// Returns the time in which one worker updates a weight of `bytes` bytes, as planner/cost/durations.cpp counts it, but
// without reading the partials of its gradient and without prepared forms.
Seconds update_time(const Module& module, const CostModel& cost, ParamId param, Bytes bytes) {
  const Graph& graph = module.graph;
  const auto states =
      static_cast<Bytes>(is_compressed(module.train, graph, param) ? 0 : optimizer_states(module).size());
  const std::vector<ParamId> rows = params_updated_by_row(graph);
  const double share =
      std::ranges::find(rows, param) == rows.end() ? 1.0 : largest_updated_share(graph, param, module.train.batch);
  const NormReads norms = norm_reads(module.train.optimizer);
  const bool has_norm = graph.value(graph.param(param).value).type.rank() > 1;
  return share * cost.sweep(bytes * (1 + states), 1) +
         (has_norm ? cost.sweep(norms.sweeps * bytes * (2 + (norms.states ? states : 0)), 1) : 0.0);
}

void measure_parameters(const Module& module, const CostModel& cost, Chain& chain) {
  const Graph& graph = module.graph;
  const KernelFacts& facts = cost.facts();
  const bool training = !graph.param_grads.empty();
  const int states = training ? static_cast<int>(optimizer_states(module).size()) : 0;
  constexpr auto kPairBytes = static_cast<Bytes>(sizeof(GradientPair));
  for (auto* list : {&chain.parameters, &chain.resident, &chain.gradients, &chain.pairs, &chain.whole}) {
    list->assign(chain.nodes.size(), 0);
  }
  chain.update_time.assign(chain.nodes.size(), 0);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const int at = chain.position[i];
    if (at < 0) {
      continue;
    }
    const auto p = static_cast<size_t>(at);
    const Node& node = graph.nodes[i];
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const ParamId id = graph.value(node.inputs[k]).param;
      if (!id.valid()) {
        continue;
      }
      const bool updated = training && graph.param_grads[id].valid();
      if (i < facts.nodes.size() && k < facts.nodes[i].prepared.size()) {
        const Bytes prepared = facts.nodes[i].prepared[k];
        chain.resident[p] += prepared;
        if (updated && prepared > 0) {
          chain.update_time[p] +=
              facts.measured ? cost.prepare(NodeId(i), static_cast<int>(k)) : cost.sweep(prepared, 1);
        }
      }
      if (node.phase == Phase::kForward) {
        const Bytes bytes = align_up(graph.value(node.inputs[k]).type.bytes(1, 1));
        chain.parameters[p] += bytes;
        chain.resident[p] += bytes;
        if (updated) {
          chain.update_time[p] += update_time(module, cost, id, bytes);
          const bool compressed = is_compressed(module.train, graph, id);
          const auto kept = compressed ? static_cast<int>(std::size(kResidualStates)) : states;
          chain.resident[p] += kept * bytes;
          chain.pairs[p] += compressed ? pairs_of(bytes / 4, module.train.compress.density) * kPairBytes : 0;
          chain.whole[p] += compressed ? 0 : bytes;
          chain.gradients[p] += bytes;
        }
      }
    }
  }
}

// Finds the positions before which no cut is allowed: those between the readers of a state into which a node folds
// statistics.
void find_joined(const Graph& graph, Chain& chain) {
  chain.joined.assign(chain.nodes.size(), false);
  const auto consumers = consumers_of(graph);
  for (const NodeId id : chain.nodes) {
    const Node& node = graph.node(id);
    for (const ValueId input : node.inputs) {
      const ParamId param = graph.value(input).param;
      if (graph.param_grads.empty() || !node.op->folds_states || !param.valid() || graph.param(param).trained) {
        continue;
      }
      int first = chain.size();
      int last = 0;
      for (const NodeId reader : consumers[input]) {
        if (const int at = chain.position[static_cast<size_t>(reader.index)]; at >= 0) {
          first = std::min(first, at);
          last = std::max(last, at);
        }
      }
      std::fill(chain.joined.begin() + first + 1, chain.joined.begin() + last + 1, true);
    }
  }
}

}  // namespace

int Chain::most_stages() const {
  int stages = 1;
  for (int i = 1; i <= std::min(last_cut, size() - 1); ++i) {
    stages += joined[static_cast<size_t>(i)] ? 0 : 1;
  }
  return stages;
}

Chain make_chain(const Module& module, const CostModel& cost) {
  const Graph& graph = module.graph;
  const int64_t g = module.train.norm_rows;
  Chain chain;
  split_head_nodes(graph, chain);
  const std::vector<bool> for_weights = weight_gradient_nodes(graph);
  for (int i = 0; i < chain.size(); ++i) {
    chain.forward_time.push_back(cost.node(graph, chain.nodes[static_cast<size_t>(i)], g));
    Seconds back = 0;
    Seconds& weights = chain.weight_gradient_time.emplace_back(0);
    int& count = chain.weight_gradient_nodes.emplace_back(0);
    for (const NodeId node : chain.backward[static_cast<size_t>(i)]) {
      const Seconds time = cost.node(graph, node, g);
      back += time;
      if (for_weights[static_cast<size_t>(node.index)]) {
        weights += time;
        ++count;
      }
    }
    chain.backward_time.push_back(back);
  }
  measure_values(graph, g, chain);
  measure_inputs_again(graph, chain);
  measure_parameters(module, cost, chain);
  find_joined(graph, chain);
  chain.last_cut = std::max(0, chain.size() - 1);
  for (const Head& head : graph.heads) {
    const int made = producer_position(graph, chain, graph.node(head.node).inputs[0]);
    chain.last_cut = std::min(chain.last_cut, std::max(0, made));
  }
  return chain;
}

}  // namespace xrun::planner
