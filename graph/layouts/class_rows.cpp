// Tests: tests/cases/classes_test.cpp
#include "graph/layouts/class_rows.h"

#include <algorithm>

namespace xrun {
namespace {

// The value before casts, which mixed precision inserts between a parameter and its reader.
ValueId before_casts(const Graph& graph, ValueId id) {
  for (;;) {
    const NodeId producer = graph.value(id).producer;
    if (!producer.valid() || graph.node(producer).op->name != "cast") {
      return id;
    }
    id = graph.node(producer).inputs[0];
  }
}

// The name of the input that the value is; empty if the value is computed.
std::string input_name(const Graph& graph, ValueId id) {
  const auto input = std::ranges::find(graph.inputs, id, &NamedValue::value);
  return input == graph.inputs.end() ? "" : input->name;
}

// The name of the head whose node this is; empty for other nodes.
std::string head_name(const Graph& graph, NodeId node) {
  const auto head = std::ranges::find(graph.heads, node, &Head::node);
  return head == graph.heads.end() ? "" : head->name;
}

class Collector {
 public:
  explicit Collector(const Graph& graph) : graph_(graph) {}

  // Adds the parameters of the operator that computes the logits of a loss.
  void add_loss(const Node& loss) {
    const std::string input = input_name(graph_, loss.inputs[1]);
    const ValueId logits = before_casts(graph_, loss.inputs[0]);
    const NodeId maker = graph_.value(logits).producer;
    if (!maker.valid()) {
      return;
    }
    const std::string head = head_name(graph_, maker);
    const int64_t classes = graph_.value(logits).type.dims.back();
    for (const ValueId operand : graph_.node(maker).inputs) {
      add(operand, classes, input, head.empty() ? graph_.node(maker).path : head,
          head.empty() ? ClassRows::kLogits : ClassRows::kHead);
    }
  }

  void add_embedding(const Node& node) {
    const std::string input = input_name(graph_, node.inputs[0]);
    if (!input.empty() && node.inputs.size() > 1) {
      add(node.inputs[1], graph_.value(node.inputs[0]).type.classes, input, node.path, ClassRows::kEmbedding);
    }
  }

  std::vector<ClassRows> take() { return std::move(rows_); }

 private:
  void add(ValueId operand, int64_t classes, const std::string& input, const std::string& part, ClassRows::Kind kind) {
    const Value& value = graph_.value(before_casts(graph_, operand));
    if (!value.param.valid() || value.type.dims.empty() || value.type.dims[0] != classes ||
        std::ranges::find(rows_, value.param, &ClassRows::param) != rows_.end()) {
      return;
    }
    rows_.push_back({value.param, input, part, kind});
  }

  const Graph& graph_;
  std::vector<ClassRows> rows_;
};

}  // namespace

std::vector<ClassRows> class_rows(const Graph& graph) {
  Collector collector(graph);
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward && node.op->margin != nullptr) {
      collector.add_loss(node);
    }
  }
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kForward && node.op->name == "embed") {
      collector.add_embedding(node);
    }
  }
  return collector.take();
}

std::vector<std::string> inputs_of_results(const Graph& graph) {
  std::vector<ValueId> values;
  for (const NamedValue& output : graph.outputs) {
    values.push_back(output.value);
  }
  for (const Head& head : graph.heads) {
    const std::vector<ValueId>& inputs = graph.node(head.node).inputs;
    values.insert(values.end(), inputs.begin(), inputs.end());
  }
  return inputs_of(graph, values);
}

std::vector<std::string> inputs_of(const Graph& graph, std::span<const ValueId> values) {
  IdVector<ValueId, bool> wanted(graph.values.size(), false);
  for (const ValueId value : values) {
    wanted[value] = true;
  }
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (std::ranges::any_of(node.outputs, [&](ValueId id) { return wanted[id]; })) {
      std::ranges::for_each(node.inputs, [&](ValueId id) { wanted[id] = true; });
    }
  }
  std::vector<std::string> names;
  for (const NamedValue& input : graph.inputs) {
    if (wanted[input.value]) {
      names.push_back(input.name);
    }
  }
  return names;
}

}  // namespace xrun
