// Small models for the planner's tests: a registry of operators without kernels, and modules built from these
// operators.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/layouts/kernel_facts.h"
#include "graph/module.h"
#include "graph/passes/autodiff.h"
#include "graph/passes/pipeline.h"
#include "tests/support/optimizers.h"

namespace xrun::planner::testing {

using Types = std::span<const TensorType>;

namespace ops {

inline Result<OpShape> like_first(Types in, const Attrs&) { return OpShape{{in[0]}, {}}; }

inline Result<OpShape> infer_linear(Types in, const Attrs& attrs) {
  const int64_t out = attrs.integer("out");
  TensorType type = in[0];
  const int64_t width = type.dims.back();
  type.dims.back() = out;
  return OpShape{{type}, {{"weight", {DType::kF32, {out, width}}, {Init::kHeNormal, 0, width}, true}}};
}

inline OpCost linear_cost(Types in, Types out, const Attrs&) {
  const double a = static_cast<double>(in[0].row_elements());
  const double b = static_cast<double>(out[0].row_elements());
  return {2 * a * b, 4 * (in[0].row_elements() + out[0].row_elements())};
}

inline OpCost matrix_cost(Types in, Types out, const Attrs&) {
  // The cost of a gradient of linear: dx reads dy and the weight, and dw reads dy and x.
  const double a = static_cast<double>(in[0].dims.back());
  const double b = static_cast<double>(out[0].dims.back());
  return {2 * a * b, 4 * (in[0].dims.back() + out[0].dims.back())};
}

inline Status grad_linear(GradBuilder& b) {
  if (b.wanted(0)) {
    XRUN_ASSIGN(auto dx, b.emit("linear.dx", {b.output_grad(0), b.input(1)}));
    b.set_grad(0, dx[0]);
  }
  XRUN_ASSIGN(auto dw, b.emit("linear.dw", {b.output_grad(0), b.input(0)}));
  b.set_grad(1, dw[0]);
  return {};
}

inline Result<OpShape> infer_linear_dx(Types in, const Attrs&) {
  TensorType type = in[0];
  type.dims.back() = in[1].dims.back();
  return OpShape{{type}, {}};
}

inline Result<OpShape> infer_linear_dw(Types in, const Attrs&) {
  return OpShape{{{DType::kF32, {in[0].dims.back(), in[1].dims.back()}}}, {}};
}

inline Status grad_relu(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("relu.dx", {b.output_grad(0), b.output(0)}));
  b.set_grad(0, dx[0]);
  return {};
}

inline Result<OpShape> infer_bn(Types in, const Attrs&) {
  const int64_t c = in[0].dims.back();
  const TensorType stat{DType::kF32, {c}};
  const TensorType block{DType::kF32, {kPerBlock, c}};
  return OpShape{{in[0], block, block},
                 {{"weight", stat, {Init::kConstant, 1}, true},
                  {"bias", stat, {Init::kConstant, 0}, true},
                  {"running_mean", stat, {Init::kConstant, 0}, false},
                  {"running_var", stat, {Init::kConstant, 1}, false}}};
}

inline Status grad_bn(GradBuilder& b) {
  XRUN_ASSIGN(auto g,
              b.emit("bn.grad", {b.input(0), b.output_grad(0), b.input(1), b.input(2), b.output(1), b.output(2)}));
  b.set_grad(0, g[0]);
  b.set_grad(1, g[1]);
  b.set_grad(2, g[2]);
  return {};
}

inline Result<OpShape> infer_bn_grad(Types in, const Attrs&) { return OpShape{{in[1], in[2], in[3]}, {}}; }

inline Status grad_add(GradBuilder& b) {
  for (int i = 0; i < 2; ++i) {
    if (b.wanted(i)) {
      b.set_grad(i, b.output_grad(0));
    }
  }
  return {};
}

inline Status grad_noise(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("noise.dx", {b.output_grad(0)}));
  b.set_grad(0, dx[0]);
  return {};
}

inline Result<OpShape> infer_rows(Types, const Attrs&) { return OpShape{{{DType::kF32, {kBatch}}}, {}}; }

inline Result<OpShape> infer_loss_dx(Types in, const Attrs&) { return OpShape{{in[1]}, {}}; }

inline Status grad_loss(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("softmax_ce.dx", {b.output_grad(0), b.input(0), b.input(1)}));
  b.set_grad(0, dx[0]);
  return {};
}

inline Result<OpShape> infer_classifier(Types in, const Attrs& attrs) {
  const int64_t classes = attrs.integer("classes");
  TensorType logits{DType::kF32, {kBatch, classes}};
  logits.sharded = true;
  std::vector<ParamDecl> params{{"weight", {DType::kF32, {classes, in[0].dims.back()}}, {Init::kNormal, 0.01}, true}};
  if (attrs.flag("bias", false)) {
    params.push_back({"bias", {DType::kF32, {classes}}, {Init::kConstant, 0}, true});
  }
  return OpShape{{logits}, std::move(params)};
}

inline Result<OpShape> infer_cast(Types in, const Attrs& attrs) {
  TensorType type = in[0];
  type.dtype = parse_dtype(attrs.text("to")).value_or(DType::kF32);
  return OpShape{{type}, {}};
}

inline Status grad_cast(GradBuilder& b) {
  XRUN_ASSIGN(auto dx, b.emit("cast", {b.output_grad(0)}, {{"to", std::string(name_of(b.type(b.input(0)).dtype))}}));
  b.set_grad(0, dx[0]);
  return {};
}

}  // namespace ops

// Returns a registry with linear(out), relu, bn, add, noise (random), cast, classifier(classes, bias) (a head),
// softmax_ce and accuracy (dense or on a head), and the operators of their gradients.
inline const OpRegistry& test_registry() {
  static const std::vector<OpDef> defs{
      {.name = "linear",
       .precision = PrecisionRule::kNarrow,
       .infer = ops::infer_linear,
       .cost = ops::linear_cost,
       .grad = ops::grad_linear},
      {.name = "linear.dx", .infer = ops::infer_linear_dx, .cost = ops::matrix_cost},
      {.name = "linear.dw", .rows = RowProperty::kReduces, .infer = ops::infer_linear_dw, .cost = ops::matrix_cost},
      {.name = "relu", .infer = ops::like_first, .grad = ops::grad_relu},
      {.name = "relu.dx", .infer = ops::like_first},
      {.name = "bn",
       .rows = RowProperty::kRowCoupled,
       .differs_in_eval = true,
       .folds_states = true,
       .infer = ops::infer_bn,
       .grad = ops::grad_bn},
      {.name = "bn.grad", .rows = RowProperty::kReduces, .infer = ops::infer_bn_grad},
      {.name = "add", .infer = ops::like_first, .grad = ops::grad_add},
      {.name = "noise", .random = true, .differs_in_eval = true, .infer = ops::like_first, .grad = ops::grad_noise},
      {.name = "noise.dx", .random = true, .infer = ops::like_first},
      {.name = "cast", .infer = ops::infer_cast, .grad = ops::grad_cast},
      {.name = "fill", .infer = ops::like_first},
      {.name = "classifier",
       .precision = PrecisionRule::kNarrow,
       .infer = ops::infer_classifier,
       .head =
           [](const Attrs& attrs) {
             return HeadForm{.cosine = attrs.flag("cosine", false), .bias = attrs.flag("bias", false)};
           }},
      {.name = "softmax_ce",
       .precision = PrecisionRule::kWide,
       .infer = ops::infer_rows,
       .grad = ops::grad_loss,
       .margin = [](const Attrs&) -> Result<MarginForm> { return MarginForm{}; }},
      {.name = "softmax_ce.dx", .infer = ops::infer_loss_dx},
      {.name = "accuracy",
       .precision = PrecisionRule::kWide,
       .infer = ops::infer_rows,
       .metric_k = [](const Attrs&) { return int64_t{1}; }},
  };
  static const OpRegistry registry = [] {
    std::vector<const OpDef*> pointers;
    for (const OpDef& def : defs) {
      pointers.push_back(&def);
    }
    return OpRegistry(std::move(pointers));
  }();
  return registry;
}

struct ModelOptions {
  int layers = 3;  // linear -> bn -> relu, each with a skip connection if `skips` is set
  int64_t input = 32;
  int64_t width = 64;
  std::vector<int64_t> widths;  // width of each layer, if they differ; a layer of another width has no skip connection
  int64_t classes = 10;
  bool head = false;  // a sharded classifier; false: a dense one
  bool head_bias = false;
  bool head_cosine = false;  // a head of cosines, whose class weights have a prepared form
  bool norm = true;          // bn in each layer
  bool skips = false;
  int tied = 0;         // layers i and i + tied share one weight; 0: no sharing
  bool random = false;  // a `noise` operator after the last layer
  PrecisionMode precision = PrecisionMode::kF32;
  int64_t batch = 64;
  int64_t norm_rows = 8;
  std::string optimizer = "sgd";
  double momentum = 0.9;
  RowFormat weights = RowFormat::kF32;  // format of class weights
  RowFormat states = RowFormat::kF32;
};

// Returns the checked module of a small classifier, as the language front end makes it: before graph/passes/pipeline.h.
inline Module make_module(const ModelOptions& options) {
  Module module;
  module.model = "small";
  Graph& graph = module.graph;
  int count = 0;
  const auto call = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs, const std::string& path,
                        std::vector<NamedValue> given = {}) {
    Span span{0, static_cast<uint32_t>(10 * count), static_cast<uint32_t>(10 * count + 5)};
    ++count;
    const NodeId node =
        call_op(graph, *test_registry().find(op), std::move(inputs), std::move(attrs), path, span, given).value();
    return graph.node(node).outputs[0];
  };
  ValueId x = graph.add_input("x", {DType::kF32, {kBatch, options.input}});
  TensorType label_type{DType::kI32, {kBatch}};
  label_type.classes = options.classes;
  const ValueId label = graph.add_input("label", label_type);
  x = call("linear", {x}, {{"out", options.width}}, "stem");
  std::vector<ValueId> weights;
  int64_t before = options.width;
  for (int i = 0; i < options.layers; ++i) {
    const std::string name = "layer" + std::to_string(i);
    const ValueId skip = x;
    const bool shares = options.tied > 0 && i >= options.tied;
    const int64_t width = options.widths.empty() ? options.width : options.widths[static_cast<size_t>(i)];
    x = call("linear", {x}, {{"out", width}}, name + ".linear",
             shares ? std::vector<NamedValue>{{"weight", weights[static_cast<size_t>(i % options.tied)]}}
                    : std::vector<NamedValue>());
    weights.push_back(graph.node(graph.value(x).producer).inputs[1]);
    if (options.norm) {
      x = call("bn", {x}, {}, name + ".bn");
    }
    x = call("relu", {x}, {}, name + ".relu");
    if (options.skips && width == before) {
      x = call("add", {x, skip}, {}, name + ".add");
    }
    before = width;
  }
  if (options.random) {
    x = call("noise", {x}, {}, "noise");
  }
  graph.outputs.push_back({"feature", x});
  if (options.head) {
    Attrs attrs{{"classes", options.classes}, {"bias", options.head_bias}};
    if (options.head_cosine) {
      attrs.set("cosine", true);
    }
    x = call("classifier", {x}, std::move(attrs), "id");
    graph.heads.push_back({"id", graph.value(x).producer, {}});
  } else {
    x = call("linear", {x}, {{"out", options.classes}}, "out");
  }
  const ValueId loss = call("softmax_ce", {x, label}, {}, "loss");
  const ValueId accuracy = call("accuracy", {x, label}, {}, "accuracy");
  module.train.batch = options.batch;
  module.train.norm_rows = options.norm_rows;
  module.train.loss = {{loss}};
  module.train.duration = {100, TrainSpan::kSteps};
  module.train.metrics.push_back({"accuracy", accuracy, "", {}});
  module.train.optimizer = test::optimizer(options.optimizer, {{"momentum", options.momentum}});
  module.train.precision = options.precision;
  if (options.weights != RowFormat::kF32 || options.states != RowFormat::kF32) {
    GroupSpec group;
    group.path = "id";
    group.weights = options.weights;
    group.states = options.states;
    module.train.groups.push_back(group);
  }
  module.has_train = true;
  module.math_digest = "0123456789abcdef";
  return module;
}

// Returns a data source. The planner's tests never open it.
inline SourceSpec source(const std::string& name, const std::string& reader, Attrs args = {}) {
  SourceSpec spec;
  spec.name = name;
  spec.reader = {reader, std::move(args), {}};
  return spec;
}

// Returns a source of glyph pictures: 1,000 characters of each font.
inline SourceSpec glyphs_source(const std::string& name, std::vector<std::string> fonts, int64_t size) {
  return source(name, "glyphs",
                {{"fonts", std::move(fonts)}, {"chars", std::vector<int64_t>{0x4E00, 0x4E00 + 1000}}, {"size", size}});
}

inline Module prepare_training(const Module& module) { return prepare(module, test_registry(), {}).value(); }
inline Module prepare_inference(const Module& module) {
  return prepare(module, test_registry(), {.training = false}).value();
}

// Returns kernel facts with round numbers: 256 bytes of scratch per worker for every node, and a prepared form of half
// the size for bf16 weights of `linear`. They have no times, so the planner uses the analytic cost.
inline KernelFacts make_facts(const Module& prepared) {
  KernelFacts facts;
  facts.isa = "avx2";
  facts.digest = "facts";
  const Graph& graph = prepared.graph;
  for (const Node& node : graph.nodes) {
    KernelFact fact;
    fact.scratch = 256;
    fact.prepared.assign(node.inputs.size(), 0);
    if (node.op->name == "linear" && graph.value(node.inputs[0]).type.dtype == DType::kBF16) {
      fact.prepared[1] = align_up(graph.value(node.inputs[1]).type.row_elements() * 2);
    }
    facts.nodes.push_back(std::move(fact));
  }
  facts.head_seconds_per_mac = 2e-11;
  return facts;
}

}  // namespace xrun::planner::testing
