// Steps:
//   1. Find the values that are asked for: outputs of the model and logits of heads.
//   2. Mark the nodes on which they depend; all others, such as losses and metrics, are left out.
//   3. Declare the inputs that are needed, with the nodes of their preprocessing if it is asked for.
//   4. Apply the rule of each marked node in the order of the graph.
//   5. Give the results their names as outputs.
// Tests: tests/runtime/cli/commands/export_test.cpp
#include "ops/onnx/convert.h"

#include <algorithm>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/base/nearest.h"
#include "ops/onnx/rules.h"

namespace xrun::ops {
namespace {

OnnxRule rule_of(const OpDef& op) {
  for (const auto& rules :
       {window_rules(), dense_rules(), norm_rules(), shape_rules(), reduction_rules(), attention_rules()}) {
    const auto found = std::ranges::find(rules, op.name, &NamedOnnxRule::op);
    if (found != rules.end()) {
      return found->rule;
    }
  }
  return op.expr != nullptr ? function_rule : nullptr;
}

std::vector<std::string> names_of(std::span<const NamedValue> values) {
  std::vector<std::string> names;
  std::ranges::transform(values, std::back_inserter(names), &NamedValue::name);
  return names;
}

Result<std::vector<NamedValue>> wanted_outputs(const Graph& graph, const ExportOptions& options) {
  if (options.outputs.empty()) {
    return graph.outputs;
  }
  std::vector<NamedValue> wanted;
  for (const std::string& name : options.outputs) {
    const auto found = std::ranges::find(graph.outputs, name, &NamedValue::name);
    if (found == graph.outputs.end()) {
      return content_error("XG0930", {"the model has no output `{}`", name},
                           nearest_names(name, names_of(graph.outputs)));
    }
    wanted.push_back(*found);
  }
  return wanted;
}

Result<const Head*> find_head(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.heads, name, &Head::name);
  if (found == graph.heads.end()) {
    std::vector<std::string> names;
    std::ranges::transform(graph.heads, std::back_inserter(names), &Head::name);
    return content_error("XG0930", {"the model has no head `{}`", name},
                         names.empty() ? std::string("leave --with-head out") : nearest_names(name, names));
  }
  return &*found;
}

// The nodes on which the values depend, in the order of the graph.
std::vector<const Node*> needed_nodes(const Graph& graph, std::vector<ValueId> open) {
  std::vector<bool> needed(graph.nodes.size());
  while (!open.empty()) {
    const NodeId producer = graph.value(open.back()).producer;
    open.pop_back();
    if (producer.valid() && !needed[static_cast<size_t>(producer.index)]) {
      needed[static_cast<size_t>(producer.index)] = true;
      const Node& node = graph.node(producer);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }
  std::vector<const Node*> nodes;
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) {
      nodes.push_back(&graph.nodes[NodeId(i)]);
    }
  }
  return nodes;
}

// Declares the inputs that the nodes read or that are results themselves.
Status declare_inputs(OnnxBuilder& to, const ExportOptions& options, const std::vector<const Node*>& nodes,
                      const std::vector<ValueId>& wanted) {
  for (const NamedValue& input : to.graph().inputs) {
    const auto reads = [&](const Node* node) {
      return std::ranges::find(node->inputs, input.value) != node->inputs.end();
    };
    if (std::ranges::none_of(nodes, reads) && std::ranges::find(wanted, input.value) == wanted.end()) {
      continue;
    }
    if (options.preprocess == nullptr) {
      to.add_input(input);
      continue;
    }
    XRUN_ASSIGN(OnnxPreprocessing made,
                preprocessing_of(*options.preprocess, input, to.type(input.value), options.scales));
    XRUN_TRY(add_preprocessing(to, made, input));
    to.made().preprocessing.push_back(std::move(made));
  }
  return {};
}

OnnxType output_type(const TensorType& type) { return type.dtype == DType::kI32 ? OnnxType::kInt32 : OnnxType::kFloat; }

void add_output(OnnxBuilder& to, const std::string& value, OnnxValue output) {
  output.name = to.unique(output.name);
  to.made().nodes.push_back({.op = "Identity", .name = output.name, .inputs = {value}, .outputs = {output.name}});
  to.made().outputs.push_back(std::move(output));
}

void add_head_outputs(OnnxBuilder& to, const Graph& graph, const Head& head, int64_t topk) {
  const Node& node = graph.node(head.node);
  const int64_t classes = to.type(node.outputs[0]).dims[1];
  std::string logits = to.name_of(node.outputs[0]);
  if (topk > 0) {
    to.begin(node);
    const auto best = to.add_several("TopK", 2, {logits, to.list({topk})});
    add_output(to, best[1], {head.name + "_classes", OnnxType::kInt64, {kBatch, topk}});
    logits = best[0];
  }
  add_output(to, logits, {head.name + "_logits", OnnxType::kFloat, {kBatch, topk > 0 ? topk : classes}});
}

}  // namespace

Result<OnnxGraph> to_onnx(const std::string& model, const Graph& graph, const ExportOptions& options) {
  XRUN_ASSIGN(const std::vector<NamedValue> outputs, wanted_outputs(graph, options));
  std::vector<ValueId> wanted;
  std::ranges::transform(outputs, std::back_inserter(wanted), &NamedValue::value);
  std::vector<std::pair<const Head*, int64_t>> heads;
  for (const ExportedHead& head : options.heads) {
    XRUN_ASSIGN(const Head* const found, find_head(graph, head.name));
    wanted.push_back(graph.node(found->node).outputs[0]);
    if (const int64_t classes = graph.value(wanted.back()).type.dims[1]; head.topk > classes) {
      return content_error("XG0930", {"--topk {} is more than the {} classes of `{}`", head.topk, classes, head.name},
                           {"ask for at most {}", classes});
    }
    heads.emplace_back(found, head.topk);
  }
  if (wanted.empty()) {
    return content_error("XG0930", {"model {} has no output", model},
                         graph.heads.empty() ? std::string("declare one: output feature")
                                             : fmt::format("export its head: --with-head {}", graph.heads[0].name));
  }
  const std::vector<const Node*> nodes = needed_nodes(graph, wanted);
  OnnxBuilder to(graph,
                 !options.form.fp8.empty()       ? kFp8Opset
                 : options.preprocess != nullptr ? kResizeOpset
                                                 : kOnnxOpset,
                 options.form);
  to.made().name = model;
  XRUN_TRY(declare_inputs(to, options, nodes, wanted));
  for (const Node* const node : nodes) {
    const OnnxRule rule = rule_of(*node->op);
    if (rule == nullptr) {
      return content_error("XG0930", {"`{}` of `{}` has no form in ONNX", node->op->name, node->path},
                           "export an output that does not depend on it: --only NAME", node->span);
    }
    to.begin(*node);
    XRUN_TRY(rule(to, *node));
  }
  for (const NamedValue& output : outputs) {
    const TensorType& type = graph.value(output.value).type;
    add_output(to, to.name_of(output.value), {output.name, output_type(type), type.dims});
  }
  for (const auto& [head, topk] : heads) {
    add_head_outputs(to, graph, *head, topk);
  }
  return to.take();
}

}  // namespace xrun::ops
