#include "tests/support/tiny_ops.h"

#include <functional>
#include <map>
#include <string>

#include "graph/base/random.h"
#include "graph/passes/autodiff.h"

namespace xrun::testing {
namespace {

using Types = std::span<const TensorType>;

Result<OpShape> like_first(Types in, const Attrs&) { return OpShape{{in[0]}, {}}; }

Result<OpShape> infer_linear(Types in, const Attrs& attrs) {
  const int64_t out = attrs.integer("out");
  TensorType type = in[0];
  const int64_t width = type.dims.back();
  type.dims.back() = out;
  return OpShape{{type}, {{"weight", {DType::kF32, {out, width}}, {Init::kHeNormal, 0, width}, true}}};
}

Result<OpShape> infer_dx(Types in, const Attrs&) {
  TensorType type = in[0];
  type.dims.back() = in[1].dims.back();
  return OpShape{{type}, {}};
}

Result<OpShape> infer_dw(Types in, const Attrs&) {
  return OpShape{{{DType::kF32, {in[0].dims.back(), in[1].dims.back()}}}, {}};
}

Result<OpShape> infer_pair(Types in, const Attrs&) {
  if (in[0].dims != in[1].dims) {
    return Error{ErrorKind::kContent, "XG0301", "cannot combine " + to_text(in[0]) + " and " + to_text(in[1]), ""};
  }
  return OpShape{{in[0]}, {}};
}

Result<OpShape> infer_loss(Types, const Attrs&) { return OpShape{{{DType::kF32, {kBatch}}}, {}}; }

Result<OpShape> infer_cast(Types in, const Attrs& attrs) {
  TensorType type = in[0];
  type.dtype = parse_dtype(attrs.text("to")).value_or(DType::kF32);
  return OpShape{{type}, {}};
}

Status grad_linear(GradBuilder& b) {
  if (b.wanted(0)) {
    XRUN_ASSIGN(auto dx, b.emit("linear.dx", {b.output_grad(0), b.input(1)}));
    b.set_grad(0, dx[0]);
  }
  if (b.wanted(1)) {
    XRUN_ASSIGN(auto dw, b.emit("linear.dw", {b.output_grad(0), b.input(0)}));
    b.set_grad(1, dw[0]);
  }
  return {};
}

Status grad_relu(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("relu.dx", {b.output_grad(0), b.output(0)}));
  b.set_grad(0, dx[0]);
  return {};
}

Status grad_add(GradBuilder& b) {
  ValueId dy = b.output_grad(0);
  if (b.node().attrs.flag("relu", false)) {
    XRUN_ASSIGN(auto masked, b.emit("relu.dx", {dy, b.output(0)}));
    dy = masked[0];
  }
  for (int i = 0; i < 2; ++i) {
    if (b.wanted(i)) {
      b.set_grad(i, dy);
    }
  }
  return {};
}

Status grad_mul(GradBuilder& b) {
  for (int i = 0; i < 2; ++i) {
    if (b.wanted(i)) {
      XRUN_ASSIGN(auto dx, b.emit("mul", {b.output_grad(0), b.input(1 - i)}));
      b.set_grad(i, dx[0]);
    }
  }
  return {};
}

Status grad_scale(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("scale", {b.output_grad(0)}, b.node().attrs));
  b.set_grad(0, dx[0]);
  return {};
}

Status grad_noise(GradBuilder& b) {
  b.set_grad(0, b.output_grad(0));
  return {};
}

Status grad_cast(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("cast", {b.output_grad(0)}, {{"to", std::string(name_of(b.type(b.input(0)).dtype))}}));
  b.set_grad(0, dx[0]);
  return {};
}

Status grad_loss(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("square_loss.dx", {b.output_grad(0), b.input(0)}));
  b.set_grad(0, dx[0]);
  return {};
}

bool is_unit_scale(Types, const Attrs& attrs) { return attrs.real("k") == 1.0; }

const std::vector<OpDef>& tiny_ops() {
  static const std::vector<OpDef> ops{
      {.name = "linear",
       .signature = "(x: [N, C], out: int)",
       .precision = PrecisionRule::kNarrow,
       .infer = infer_linear,
       .grad = grad_linear},
      {.name = "linear.dx", .infer = infer_dx},
      {.name = "linear.dw", .rows = RowProperty::kReduces, .infer = infer_dw},
      {.name = "relu", .signature = "(x: [N, ...])", .infer = like_first, .grad = grad_relu},
      {.name = "relu.dx", .infer = like_first},
      {.name = "add",
       .signature = "(a: [N, ...], b: [N, ...])",
       .absorbs = "relu",
       .infer = infer_pair,
       .grad = grad_add},
      {.name = "mul", .signature = "(a: [N, ...], b: [N, ...])", .infer = infer_pair, .grad = grad_mul},
      {.name = "scale",
       .signature = "(x: [N, ...], k: float)",
       .infer = like_first,
       .is_identity = is_unit_scale,
       .grad = grad_scale},
      {.name = "noise", .signature = "(x: [N, ...])", .random = true, .infer = like_first, .grad = grad_noise},
      {.name = "cast", .infer = infer_cast, .grad = grad_cast},
      {.name = "fill", .infer = like_first},
      {.name = "square_loss",
       .signature = "(x: [N, C])",
       .precision = PrecisionRule::kWide,
       .infer = infer_loss,
       .grad = grad_loss},
      {.name = "square_loss.dx",
       .infer = [](Types in, const Attrs&) -> Result<OpShape> {
         return OpShape{{in[1]}, {}};
       }},
  };
  return ops;
}

// A call on all rows. `in` and `types` are those of the inputs.
struct Call {
  const Node& node;
  const Graph& graph;
  const TinyRun& run;
  const std::vector<double>& in(size_t i) const { return run.values[static_cast<size_t>(node.inputs[i].index)]; }
  int64_t width(size_t i) const { return graph.value(node.inputs[i]).type.dims.back(); }
};

using Values = std::vector<double>;

Values eval_linear(const Call& c) {
  const int64_t out = c.graph.value(c.node.outputs[0]).type.dims.back();
  const int64_t width = c.width(0);
  Values y(static_cast<size_t>(c.run.rows * out), 0.0);
  for (int64_t n = 0; n < c.run.rows; ++n) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < width; ++k) {
        y[static_cast<size_t>(n * out + o)] +=
            c.in(0)[static_cast<size_t>(n * width + k)] * c.in(1)[static_cast<size_t>(o * width + k)];
      }
    }
  }
  return y;
}

Values eval_linear_dx(const Call& c) {
  const int64_t out = c.width(0);
  const int64_t width = c.width(1);
  Values dx(static_cast<size_t>(c.run.rows * width), 0.0);
  for (int64_t n = 0; n < c.run.rows; ++n) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < width; ++k) {
        dx[static_cast<size_t>(n * width + k)] +=
            c.in(0)[static_cast<size_t>(n * out + o)] * c.in(1)[static_cast<size_t>(o * width + k)];
      }
    }
  }
  return dx;
}

Values eval_linear_dw(const Call& c) {
  const int64_t out = c.width(0);
  const int64_t width = c.width(1);
  Values dw(static_cast<size_t>(out * width), 0.0);
  for (int64_t n = 0; n < c.run.rows; ++n) {
    for (int64_t o = 0; o < out; ++o) {
      for (int64_t k = 0; k < width; ++k) {
        dw[static_cast<size_t>(o * width + k)] +=
            c.in(0)[static_cast<size_t>(n * out + o)] * c.in(1)[static_cast<size_t>(n * width + k)];
      }
    }
  }
  return dw;
}

Values pairwise(const Call& c, const std::function<double(double, double)>& f) {
  Values y(c.in(0).size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = f(c.in(0)[i], c.in(1)[i]);
  }
  return y;
}

Values each(const Call& c, const std::function<double(double)>& f) {
  Values y(c.in(0).size());
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = f(c.in(0)[i]);
  }
  return y;
}

Values eval_noise(const Call& c) {
  const RandomStream stream(7, stable_hash(c.node.path));
  Values y = c.in(0);
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] += 0.1 * stream.uniform(i);
  }
  return y;
}

Values eval_loss(const Call& c) {
  Values y(static_cast<size_t>(c.run.rows), 0.0);
  for (size_t i = 0; i < c.in(0).size(); ++i) {
    y[i / static_cast<size_t>(c.width(0))] += 0.5 * c.in(0)[i] * c.in(0)[i];
  }
  return y;
}

Values eval_loss_dx(const Call& c) {
  Values dx = c.in(1);
  for (size_t i = 0; i < dx.size(); ++i) {
    dx[i] *= c.in(0)[i / static_cast<size_t>(c.width(1))];
  }
  return dx;
}

const std::map<std::string_view, std::function<Values(const Call&)>>& meanings() {
  static const std::map<std::string_view, std::function<Values(const Call&)>> table{
      {"linear", eval_linear},
      {"linear.dx", eval_linear_dx},
      {"linear.dw", eval_linear_dw},
      {"relu", [](const Call& c) { return each(c, [](double x) { return x > 0 ? x : 0; }); }},
      {"relu.dx", [](const Call& c) { return pairwise(c, [](double dy, double y) { return y > 0 ? dy : 0; }); }},
      {"add",
       [](const Call& c) {
         const bool relu = c.node.attrs.flag("relu", false);
         return pairwise(c, [relu](double a, double b) { return relu && a + b < 0 ? 0 : a + b; });
       }},
      {"mul", [](const Call& c) { return pairwise(c, [](double a, double b) { return a * b; }); }},
      {"scale", [](const Call& c) { return each(c, [k = c.node.attrs.real("k")](double x) { return k * x; }); }},
      {"noise", eval_noise},
      {"cast", [](const Call& c) { return each(c, [](double x) { return x; }); }},
      {"fill", [](const Call& c) { return each(c, [v = c.node.attrs.real("value")](double) { return v; }); }},
      {"square_loss", eval_loss},
      {"square_loss.dx", eval_loss_dx},
  };
  return table;
}

}  // namespace

const OpRegistry& tiny_registry() {
  static const OpRegistry registry = [] {
    std::vector<const OpDef*> pointers;
    for (const OpDef& op : tiny_ops()) {
      pointers.push_back(&op);
    }
    return OpRegistry(std::move(pointers));
  }();
  return registry;
}

TinyRun draw_leaves(const Graph& graph, int64_t rows, uint64_t seed) {
  TinyRun run{rows, std::vector<Values>(graph.values.size())};
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer.valid()) {
      continue;
    }
    const RandomStream stream(seed, stable_hash(value.name));
    run.values[i].resize(static_cast<size_t>(value.type.elements(rows, rows)));
    for (size_t k = 0; k < run.values[i].size(); ++k) {
      run.values[i][k] = stream.uniform(k, -1.0f, 1.0f);
    }
  }
  return run;
}

void evaluate(const Graph& graph, TinyRun& run) {
  for (const Node& node : graph.nodes) {
    run.values[static_cast<size_t>(node.outputs[0].index)] = meanings().at(node.op->name)({node, graph, run});
  }
}

Graph random_tiny_graph(uint64_t seed, int nodes) {
  const RandomStream stream(seed, 99);
  Graph graph;
  std::vector<ValueId> pool{graph.add_input("x", {DType::kF32, {kBatch, 4}})};
  const auto call = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs, int i) {
    const NodeId node =
        call_op(graph, *tiny_registry().find(op), std::move(inputs), std::move(attrs), op + std::to_string(i), {})
            .value();
    pool.push_back(graph.node(node).outputs[0]);
  };
  for (int i = 0; i < nodes; ++i) {
    const auto pick = [&](uint64_t k) { return pool[stream.below(static_cast<uint64_t>(i) * 8 + k, pool.size())]; };
    switch (stream.below(static_cast<uint64_t>(i) * 8 + 7, 6)) {
      case 0:
        call("linear", {pick(0)}, {{"out", int64_t{4}}}, i);
        break;
      case 1:
        call("relu", {pick(0)}, {}, i);
        break;
      case 2:
        call("add", {pick(0), pick(1)}, {}, i);
        break;
      case 3:
        call("mul", {pick(0), pick(1)}, {}, i);
        break;
      case 4:
        call("scale", {pick(0)}, {{"k", stream.below(static_cast<uint64_t>(i) * 8 + 3, 2) == 0 ? 1.0 : 0.5}}, i);
        break;
      default:
        call("noise", {pick(0)}, {}, i);
    }
  }
  // The loss reads the last few values, so that most of the graph is needed.
  ValueId last = pool.back();
  for (size_t k = 1; k < 3 && k < pool.size(); ++k) {
    call("add", {last, pool[pool.size() - 1 - k]}, {}, 1000 + static_cast<int>(k));
    last = pool.back();
  }
  call("linear", {last}, {{"out", int64_t{3}}}, 2000);
  graph.outputs.push_back({"out", pool.back()});
  call("square_loss", {pool.back()}, {}, 2001);
  graph.loss = {{pool.back()}};
  return graph;
}

}  // namespace xrun::testing
