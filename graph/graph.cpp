// Tests: tests/graph/infer_test.cpp, tests/ops/models_test.cpp
#include "graph/graph.h"

#include <algorithm>

#include "graph/limits.h"

namespace xrun {

ValueId Graph::add_input(std::string name, TensorType type) {
  const ValueId id(values.size());
  values.push_back({.type = std::move(type), .name = name, .is_input = true});
  inputs.push_back({std::move(name), id});
  return id;
}

ValueId Graph::add_param(std::string name, TensorType type, Init init, bool trained, bool head, Span span) {
  const ValueId id(values.size());
  values.push_back({.type = std::move(type), .name = name, .param = ParamId(params.size())});
  params.push_back(
      {.name = std::move(name), .value = id, .init = init, .trained = trained, .head = head, .span = span});
  return id;
}

NodeId Graph::add_node(Node node, const std::vector<TensorType>& types) {
  const NodeId id(nodes.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueId made(values.size());
    values.push_back({.type = types[i], .name = node.path, .producer = id, .output = static_cast<int>(i)});
    node.outputs.push_back(made);
  }
  nodes.push_back(std::move(node));
  return id;
}

int64_t Graph::parameter_count() const {
  int64_t count = 0;
  for (size_t p = 0; p < params.size(); ++p) {
    const bool counts = params[p].trained && !is_tied_copy(ParamId(p));
    count += counts ? value(params[p].value).type.row_elements() : 0;
  }
  return count;
}

namespace {

Status check_size(const OpDef& op, const TensorType& type, Span span) {
  if (type.dims.size() > kMostDims) {
    return Error{ErrorKind::kContent, "XG0303",
                 "`" + std::string(op.name) + "` gets a tensor of " + std::to_string(type.dims.size()) + " dimensions",
                 "at most " + std::to_string(kMostDims) + " are possible; merge some with `reshape`", span};
  }
  const int64_t most = type.has_batch() ? kMostElementsOfSample : kMostElementsOfWeight;
  int64_t product = 1;
  for (const int64_t dim : type.dims) {
    if (dim == 0) {
      return Error{ErrorKind::kContent, "XG0303",
                   "`" + std::string(op.name) + "` gets a tensor without elements: " + to_text(type),
                   "look for a dimension that became 0 by mistake", span};
    }
    if (dim >= 0 && (__builtin_mul_overflow(product, dim, &product) || product > most)) {
      return Error{ErrorKind::kContent, "XG0303",
                   "`" + std::string(op.name) + "` gets a tensor of unlikely size: " + to_text(type),
                   "no machine can hold it; look for a dimension that grew by mistake", span};
    }
  }
  return {};
}

// The tensor that the caller gives for a parameter; invalid if the call creates the parameter.
Result<ValueId> given_for(const Graph& graph, const OpDef& op, const ParamDecl& param,
                          std::span<const NamedValue> given) {
  const auto found = std::ranges::find(given, param.name, &NamedValue::name);
  if (found == given.end()) {
    return ValueId();
  }
  const TensorType& type = graph.value(found->value).type;
  const ParamId of = graph.value(found->value).param;
  if (type == param.type && of.valid() && graph.param(of).trained != param.trained) {
    return Error{ErrorKind::kContent, "XG0301",
                 "`" + std::string(op.name) + "` trains its tensor `" + param.name + "`, but gets a state",
                 "give it a `param`, or multiply by the state yourself"};
  }
  if (type != param.type) {
    return Error{ErrorKind::kContent, "XG0301",
                 "`" + std::string(op.name) + "` has a tensor `" + param.name + "` of " + to_text(param.type) +
                     (param.trained ? "" : ", which is a state") + ", but gets " + to_text(type),
                 "declare it with that type: param " + param.name + ": " + to_text(param.type).substr(3) + " = ..."};
  }
  return found->value;
}

Status check_given(const OpDef& op, const OpShape& shape, std::span<const NamedValue> given) {
  for (const NamedValue& one : given) {
    const bool known = std::ranges::find(shape.params, one.name, &ParamDecl::name) != shape.params.end();
    if (!known || op.head != nullptr) {
      std::string owned;
      for (const ParamDecl& param : shape.params) {
        owned += !param.trained ? "" : (owned.empty() ? "`" : ", `") + param.name + "`";
      }
      return Error{ErrorKind::kContent, "XG0203",
                   known ? "the class weights of `" + std::string(op.name) +
                               "` are sharded and cannot be replaced by another tensor"
                         : "this `" + std::string(op.name) + "` has no tensor named `" + one.name + "`",
                   known || owned.empty() ? "leave it out" : "leave it out, or name one of " + owned};
    }
  }
  return {};
}

}  // namespace

Result<NodeId> call_op(Graph& graph, const OpDef& op, std::vector<ValueId> inputs, Attrs attrs, std::string path,
                       Span span, std::span<const NamedValue> given) {
  std::vector<TensorType> types;
  types.reserve(inputs.size());
  for (const ValueId id : inputs) {
    types.push_back(graph.value(id).type);
    XRUN_TRY(check_size(op, types.back(), span));
  }
  XRUN_ASSIGN(OpShape shape, op.infer(types, attrs));
  for (const TensorType& output : shape.outputs) {
    XRUN_TRY(check_size(op, output, span));
  }
  for (const ParamDecl& param : shape.params) {
    XRUN_TRY(check_size(op, param.type, span));
  }
  Node node{.op = &op,
            .inputs = std::move(inputs),
            .operands = static_cast<int>(types.size()),
            .attrs = std::move(attrs),
            .path = std::move(path),
            .span = span};
  XRUN_TRY(check_given(op, shape, given));
  for (ParamDecl& param : shape.params) {
    XRUN_ASSIGN(const ValueId value, given_for(graph, op, param, given));
    if (value.valid()) {
      node.inputs.push_back(value);
      continue;
    }
    node.inputs.push_back(graph.add_param(node.path + "." + param.name, std::move(param.type), param.init,
                                          param.trained, op.head != nullptr, span));
  }
  return graph.add_node(std::move(node), shape.outputs);
}

IdVector<ValueId, std::vector<NodeId>> consumers_of(const Graph& graph) {
  IdVector<ValueId, std::vector<NodeId>> consumers(graph.values.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId input : graph.nodes[i].inputs) {
      auto& list = consumers[input];
      if (list.empty() || list.back() != NodeId(i)) {
        list.push_back(NodeId(i));
      }
    }
  }
  return consumers;
}

}  // namespace xrun
