// The maximum model sizes of GPipe's Table 1, and the memory that this planner counts for the same pipelines
// (docs/internals/algorithms.md, "Figures of others").
#include <gtest/gtest.h>

#include "planner/planner.h"
#include "tests/planner/published_amoeba.h"
#include "tests/planner/published_layers.h"

namespace xrun::planner {
namespace {

using testing::Types;

// The operators "layer", of which weights and kept values are arguments, and those of its gradients.
Result<OpShape> infer_layer(Types, const Attrs& attrs) {
  OpShape shape{{{DType::kF32, {kBatch, attrs.integer("out")}}},
                {{"weight", {DType::kF32, {attrs.integer("params")}}, {Init::kNormal, 0.01}, true}}};
  if (attrs.integer("kept") > 0) {
    shape.outputs.push_back({DType::kF32, {kBatch, attrs.integer("kept")}});
  }
  return shape;
}

Result<OpShape> infer_dx(Types, const Attrs& attrs) {
  return OpShape{{{DType::kF32, {kBatch, attrs.integer("out")}}}, {}};
}

Result<OpShape> infer_dw(Types, const Attrs& attrs) { return OpShape{{{DType::kF32, {attrs.integer("params")}}}, {}}; }

Status grad_layer(GradBuilder& b) {
  std::vector<ValueId> read{b.output_grad(0), b.input(1)};
  std::vector<ValueId> summed{b.output_grad(0), b.input(0)};
  if (b.node().attrs.integer("kept") > 0) {
    read.push_back(b.output(1));
    summed.push_back(b.output(1));
  }
  XRUN_TRY(b.set_grad_by(0, "layer.dx", read, {{"out", b.type(b.input(0)).dims.back()}}));
  XRUN_ASSIGN(auto dw, b.emit("layer.dw", summed, {{"params", b.node().attrs.integer("params")}}));
  b.set_grad(1, dw[0]);
  return {};
}

const OpRegistry& layer_registry() {
  static const OpDef defs[] = {
      {.name = "layer", .infer = infer_layer, .grad = grad_layer},
      {.name = "layer.dx", .infer = infer_dx},
      {.name = "layer.dw", .rows = RowProperty::kReduces, .infer = infer_dw},
  };
  static const OpRegistry registry = [] {
    std::vector<const OpDef*> all;
    for (const OpDef& def : defs) {
      all.push_back(&def);
    }
    for (const char* name : {"softmax_ce", "softmax_ce.dx", "accuracy", "fill", "add"}) {
      all.push_back(testing::test_registry().find(name));
    }
    return OpRegistry(std::move(all));
  }();
  return registry;
}

constexpr int64_t kTokens = 1024;
constexpr int64_t kWidth = 2048;
constexpr int64_t kHidden = 8192;
constexpr int64_t kHeads = 32;
constexpr int64_t kVocabulary = 32'000;
constexpr int64_t kLayerParams = 4 * kWidth * kWidth + 2 * kWidth * kHidden;
// The values of a layer that its backward pass reads, for one sequence: eight of the width, two of the hidden layer,
// and the scores of all heads. The number of copies of the scores is fitted on the column pipeline-1.
constexpr int64_t kScores = 3;
constexpr int64_t kKept = kTokens * (8 * kWidth + 2 * kHidden) + kScores * kHeads * kTokens * kTokens;

// GPipe's Transformer in f32, in a pipeline of all cores with 32 micro-batches of a sequence, which all run again.
// Momentum stands for the second state of RMSProp: 12 bytes a parameter with the gradient.
Result<Plan> transformer_plan(int layers, int cores) {
  Module module;
  module.model = "transformer";
  Graph& graph = module.graph;
  const auto call = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs, const std::string& path) {
    const NodeId node =
        call_op(graph, *layer_registry().find(op), std::move(inputs), std::move(attrs), path, {}, {}).value();
    return graph.node(node).outputs[0];
  };
  ValueId x = graph.add_input("x", {DType::kF32, {kBatch, kTokens}});
  TensorType labels{DType::kI32, {kBatch}};
  labels.classes = 10;
  const ValueId label = graph.add_input("label", labels);
  const auto layer = [&](int64_t params, int64_t out, int64_t kept, const std::string& path) {
    x = call("layer", {x}, {{"out", out}, {"params", params}, {"kept", kept}}, path);
  };
  layer(kVocabulary * kWidth, kTokens * kWidth, 0, "embedding");
  for (int l = 0; l < layers; ++l) {
    layer(kLayerParams, kTokens * kWidth, kKept, "layer" + std::to_string(l));
  }
  layer(kVocabulary * kWidth, 10, kTokens * kVocabulary, "softmax");
  graph.outputs.push_back({"logits", x});
  const ValueId loss = call("softmax_ce", {x, label}, {}, "loss");
  module.train.loss = {{loss}};
  module.train.batch = 32;
  module.train.norm_rows = 1;
  module.train.duration = {100, TrainSpan::kSteps};
  module.train.optimizer = test::optimizer("sgd", {{"momentum", 0.9}});
  module.has_train = true;
  module.math_digest = "published";
  module.schedule.stages = Hint<int64_t>{cores, {}};
  module.schedule.replicas = Hint<int64_t>{1, {}};
  module.schedule.micro_batches = Hint<int64_t>{32, {}};
  module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kGpipe}, {}};
  module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  const Module training = prepare(module, layer_registry(), {}).value();
  const Module inference = prepare(module, layer_registry(), {.training = false}).value();
  const auto facts = [](const Module& prepared) {
    KernelFacts made = testing::facts_of(testing::kTpuCore);
    for (const Node& node : prepared.graph.nodes) {
      made.nodes.push_back({.prepared = std::vector<Bytes>(node.inputs.size(), 0)});
    }
    return made;
  };
  return make_plan(training, inference, facts(training), facts(inference), testing::gpus_of(testing::kTpuCore, cores),
                   {});
}

constexpr double kGiBs = 1.0 / static_cast<double>(kGiB);

// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism", NeurIPS 2019, Table 1.
TEST(Published, GpipesTransformersNeedThePublishedMemory) {
  struct Column {
    int cores;
    int layers;
    double params;       // GiB of all cores
    double activations;  // GiB of all cores
  };
  for (const Column& column : {Column{1, 13, 8.8, 6.4}, {8, 103, 59.5, 50.9}, {32, 415, 235.1, 199.9}}) {
    const auto plan = transformer_plan(column.layers, column.cores);
    ASSERT_TRUE(plan.ok()) << column.cores << ": " << plan.error().message;
    double params = 0;
    double all = 0;
    for (const Stage& stage : plan->training.stages) {
      params += 3 * static_cast<double>(stage.parameter_bytes) * kGiBs;
    }
    for (const Arena& arena : plan->training.arenas) {
      all += arena.device == kHost ? 0 : static_cast<double>(arena.live_max) * kGiBs;
    }
    EXPECT_NEAR(params / column.params, 1, 0.02) << column.cores << ": " << params;
    EXPECT_NEAR((all - params) / column.activations, 1, 0.1) << column.cores << ": " << all - params;
  }
}

// Table 1 has 13 layers on one core and 103 on eight. The planner may give the first and the last core, which have the
// vocabulary, fewer layers than the others.
TEST(Published, LayersOfGpipesFitIntoACoreAndMoreIntoEight) {
  const auto fits = [](int layers, int cores) { return transformer_plan(layers, cores).ok(); };
  EXPECT_TRUE(fits(13, 1));
  EXPECT_FALSE(fits(14, 1));
  EXPECT_TRUE(fits(111, 8));
  EXPECT_FALSE(fits(112, 8));
}

// The activations of AmoebaNet-D on all cores in GiB: the values that the cells of a stage read from the two cells
// before it, for 128 images, and all values that backward passes read, for `images` of a micro-batch. Stages have equal
// parts of the latter.
double amoeba_activations(int cells, int64_t filters, int cores, double images) {
  const testing::AmoebaNet net(cells, filters);
  int64_t all = 0;
  for (const testing::KernelList& layer : net.layers()) {
    all += layer.kept;
  }
  double values = 128.0 * 3 * 224 * 224 + images * static_cast<double>(all);
  int64_t sum = 0;
  int64_t before = 0;
  int stages = 1;
  for (const testing::KernelList& layer : net.layers()) {
    sum += layer.kept;
    if (stages < cores && sum * cores >= all * stages) {
      values += 128.0 * static_cast<double>(layer.result + before);
      ++stages;
    }
    before = layer.result;
  }
  return 4 * values * kGiBs;
}

TEST(Published, GpipesAmoebaNetsNeedThePublishedActivations) {
  constexpr double kImages = 10.1;  // images in a micro-batch, fitted on the column pipeline-2
  EXPECT_NEAR(amoeba_activations(18, 544, 2, kImages) / 8.11, 1, 0.01);
  EXPECT_NEAR(amoeba_activations(36, 544, 4, kImages) / 15.21, 1, 0.03);
  EXPECT_NEAR(amoeba_activations(72, 512, 8, kImages) / 26.24, 1, 0.03);
  EXPECT_NEAR(amoeba_activations(18, 416, 1, kImages) / 3.46, 1.43, 0.01);
}

}  // namespace
}  // namespace xrun::planner
