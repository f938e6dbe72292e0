// Tests: tests/graph/passes/passes_test.cpp
#include <map>

#include "graph/infer.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace xrun {
namespace {

class Mixer {
 public:
  Mixer(const Graph& graph, const OpDef& cast, DType narrow) : rewriter_(graph), cast_(cast), narrow_(narrow) {}

  Result<Graph> run() {
    for (size_t i = 0; i < rewriter_.old().nodes.size(); ++i) {
      XRUN_TRY(visit(NodeId(i)));
    }
    return std::move(rewriter_).finish();
  }

 private:
  // The dtype to which the activations of a node are cast; nullopt if they stay unchanged.
  std::optional<DType> wish(const Node& node, const std::vector<ValueId>& inputs) {
    switch (node.op->precision) {
      case PrecisionRule::kNarrow:
        return narrow_;
      case PrecisionRule::kWide:
        return DType::kF32;
      case PrecisionRule::kFollows:
        break;
    }
    // Operands of different dtypes are cast to f32.
    std::optional<DType> common;
    for (const ValueId id : inputs) {
      const Value& value = rewriter_.result().value(id);
      if (value.param.valid() || !is_computed(value.type.dtype)) {
        continue;
      }
      if (common && *common != value.type.dtype) {
        return DType::kF32;
      }
      common = value.type.dtype;
    }
    return std::nullopt;
  }

  Status visit(NodeId id) {
    const Node& node = rewriter_.old().node(id);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) {
      inputs.push_back(rewriter_.map(input));
    }
    if (const auto dtype = wish(node, inputs)) {
      for (ValueId& input : inputs) {
        const Value& value = rewriter_.result().value(input);
        if (!value.param.valid() && !value.type.sharded && is_computed(value.type.dtype) &&
            value.type.dtype != *dtype) {
          XRUN_ASSIGN(input, cast(input, *dtype, node));
        }
      }
    }
    const NodeId made = rewriter_.copy(id, std::move(inputs), node.attrs);
    return retype(made);
  }

  Result<ValueId> cast(ValueId value, DType dtype, const Node& near) {
    const auto [at, fresh] = casts_.try_emplace({value, dtype}, ValueId());
    if (fresh) {
      Attrs attrs{{"to", std::string(name_of(dtype))}};
      XRUN_ASSIGN(const NodeId made,
                  call_op(rewriter_.result(), cast_, {value}, std::move(attrs), near.path + ".cast", near.span));
      at->second = rewriter_.result().node(made).outputs[0];
    }
    return at->second;
  }

  Status retype(NodeId id) {
    Graph& graph = rewriter_.result();
    const Node& node = graph.node(id);
    XRUN_ASSIGN(const OpShape shape, node.op->infer(input_types(graph, node), node.attrs));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      graph.value(node.outputs[i]).type = shape.outputs[i];
    }
    return {};
  }

  Rewriter rewriter_;
  const OpDef& cast_;
  DType narrow_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

Result<Graph> mix_precision(Graph graph, const OpRegistry& registry, DType narrow) {
  const OpDef* cast = registry.find("cast");
  XRUN_CHECK(cast != nullptr, "mixed precision needs the operator `cast`");
  return Mixer(graph, *cast, narrow).run();
}

}  // namespace xrun
