// Runs every operator with sizes that do not fit into any machine. Each is rejected with a code, or its shapes, costs
// and kernels are computed without an overflow (which a build with sanitizers reports), a signal, or work that grows
// with the size.
#include <cmath>
#include <ctime>
#include <limits>
#include <map>

#include "graph/cost.h"
#include "ops/facts/facts.h"
#include "tests/ops/case_graph.h"

namespace xrun::ops {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
constexpr int64_t kSizes[] = {0,
                              (int64_t{1} << 31) - 1,
                              int64_t{1} << 31,
                              int64_t{1} << 32,
                              (int64_t{1} << 32) + 1,
                              int64_t{1} << 35,
                              int64_t{1} << 40,
                              kLargest};
// Returns a graph of the call and its gradients, without values.
Result<Graph> graph_of(const Case& c) {
  Graph graph;
  const Op* op = find_op(c.op);
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(graph.add_input("x" + std::to_string(i), input_type(c, i, DType::kF32)));
  }
  for (const std::vector<int64_t>& dims : c.params) {
    const std::string name = "p" + std::to_string(inputs.size());
    inputs.push_back(graph.add_param(name, {.dtype = DType::kF32, .dims = dims}, {}, true, false, {}));
  }
  XRUN_ASSIGN(const NodeId node, call_op(graph, op->def, inputs, c.attrs, "op", Span{}));
  if (op->def.grad == nullptr) {
    return graph;
  }
  std::vector<ValueId> output_grads;
  for (size_t i = 0; i < graph.node(node).outputs.size(); ++i) {
    const bool visible = static_cast<int>(i) < op->def.visible_outputs;
    const TensorType type = graph.value(graph.node(node).outputs[i]).type;
    output_grads.push_back(visible ? graph.add_input("dy" + std::to_string(i), type) : ValueId());
  }
  const std::vector<ValueId> all = graph.node(node).inputs;
  std::vector<bool> wanted(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    const ParamId param = graph.value(all[i]).param;
    wanted[i] = !param.valid() || graph.param(param).trained;
  }
  GradBuilder builder(graph, registry(), node, output_grads, wanted);
  XRUN_TRY(op->def.grad(builder));
  return graph;
}

// Returns whether a machine could hold the tensors. The planner rejects larger sizes before it asks for kernels.
bool is_held_by_a_machine(const Graph& graph, int64_t rows) {
  double sum = 0;
  for (const Value& value : graph.values) {
    double bytes = value.type.has_batch() ? 8.0 * static_cast<double>(rows) : 8.0;
    for (const int64_t dim : value.type.dims) {
      bytes *= dim < 0 ? 1.0 : static_cast<double>(dim);
    }
    sum += bytes;
  }
  return sum < 0x1p50;
}

std::string text_of(const Case& c) {
  std::string text = c.op + "(" + to_text(c.attrs) + ")";
  for (const std::vector<int64_t>& dims : c.inputs) {
    text += " [";
    for (const int64_t dim : dims) {
      text += std::to_string(dim) + " ";
    }
    text += "]";
  }
  return text;
}

void check(const Case& c) {
  SCOPED_TRACE(text_of(c));
  const std::clock_t begin = std::clock();  // processor time, which does not count other processes
  const Result<Graph> graph = graph_of(c);
  if (!graph.ok()) {
    EXPECT_TRUE(graph.error().code.starts_with("XG0")) << graph.error().message;
    return;
  }
  for (const Node& node : graph->nodes) {
    const OpCost cost = cost_of(*graph, node);
    EXPECT_GE(cost.bytes, 0) << node.op->name;
    EXPECT_GE(cost.flops, 0) << node.op->name;
    EXPECT_TRUE(std::isfinite(cost.flops)) << node.op->name;
  }
  for (const int64_t rows : {int64_t{1}}) {
    if (!is_held_by_a_machine(*graph, rows)) {
      continue;
    }
    const Result<KernelFacts> facts = collect_facts(*graph, rows, true, detect_isa(), true);
    if (!facts.ok()) {
      EXPECT_FALSE(facts.error().code.empty()) << facts.error().message;
      continue;
    }
    for (const KernelFact& fact : facts->nodes) {
      EXPECT_GE(fact.scratch, 0);
      for (const Bytes bytes : fact.prepared) {
        EXPECT_GE(bytes, 0);
      }
    }
  }
  const double passed = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  EXPECT_LT(passed, 5) << "work that grows with the size";
}

// Returns the first cases of each operator. Further cases only differ in the code that kernels choose.
std::vector<Case> cases() {
  std::vector<Case> all = conformance_cases();
  std::map<std::string, int> count;
  std::erase_if(all, [&](const Case& c) { return ++count[c.op] > (c.op == "conv" ? 1 : 2); });
  return all;
}

TEST(ExtremeSizes, InputsAreRejectedOrComputed) {
  for (const Case& c : cases()) {
    for (const int64_t size : kSizes) {
      size_t most = 0;
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        most = std::max(most, c.inputs[i].size());
        for (size_t d = 0; d < c.inputs[i].size(); ++d) {
          Case grown = c;
          grown.inputs[i][d] = size;
          check(grown);
        }
      }
      for (size_t d = 0; c.inputs.size() > 1 && d < most; ++d) {
        Case grown = c;
        for (std::vector<int64_t>& dims : grown.inputs) {
          if (d < dims.size() && dims[d] > 1) {
            dims[d] = size;
          }
        }
        check(grown);
      }
    }
  }
}

// Returns variants of `c`, in each of which one whole-number argument is replaced by `size`.
std::vector<Case> with_argument(const Case& c, int64_t size) {
  std::vector<Case> grown;
  for (const auto& [name, value] : c.attrs.all()) {
    if (std::holds_alternative<int64_t>(value)) {
      grown.push_back(c);
      grown.back().attrs.set(name, size);
    } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      for (size_t i = 0; i < list->size(); ++i) {
        std::vector<int64_t> other = *list;
        other[i] = size;
        grown.push_back(c);
        grown.back().attrs.set(name, other);
      }
    }
  }
  return grown;
}

TEST(ExtremeSizes, ArgumentsAreRejectedOrComputed) {
  for (const Case& c : cases()) {
    for (const int64_t size : kSizes) {
      for (const int64_t signed_size : {size, -size}) {
        for (const Case& grown : with_argument(c, signed_size)) {
          check(grown);
        }
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops
