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

// A layer: its weights, and the values of one sample that it gives to the next layer and that its backward pass reads.
struct PipelineLayer {
  int64_t params = 0;
  int64_t out = 0;
  int64_t kept = 0;
};

// A pipeline of all cores in f32 by GPipe, whose micro-batches of `rows` samples all run again. Momentum stands for the
// second state of RMSProp: 12 bytes a parameter with the gradient.
Result<Plan> gpipe_plan(int64_t input, const std::vector<PipelineLayer>& layers, const GpuDef& core, int cores,
                        int64_t rows, int64_t micro_batches) {
  Module module;
  module.model = "published";
  Graph& graph = module.graph;
  const auto call = [&](const char* op, std::vector<ValueId> inputs, Attrs attrs, const std::string& path) {
    const NodeId node =
        call_op(graph, *layer_registry().find(op), std::move(inputs), std::move(attrs), path, {}, {}).value();
    return graph.node(node).outputs[0];
  };
  ValueId x = graph.add_input("x", {DType::kF32, {kBatch, input}});
  TensorType labels{DType::kI32, {kBatch}};
  labels.classes = layers.back().out;
  const ValueId label = graph.add_input("label", labels);
  for (const PipelineLayer& layer : layers) {
    x = call("layer", {x}, {{"out", layer.out}, {"params", layer.params}, {"kept", layer.kept}},
             "layer" + std::to_string(graph.nodes.size()));
  }
  graph.outputs.push_back({"logits", x});
  const ValueId loss = call("softmax_ce", {x, label}, {}, "loss");
  module.train.loss = {{loss}};
  module.train.batch = rows * micro_batches;
  module.train.norm_rows = rows;
  module.train.duration = {100, TrainSpan::kSteps};
  module.train.optimizer = test::optimizer("sgd", {{"momentum", 0.9}});
  module.has_train = true;
  module.math_digest = "published";
  module.schedule.stages = Hint<int64_t>{cores, {}};
  module.schedule.replicas = Hint<int64_t>{1, {}};
  module.schedule.micro_batches = Hint<int64_t>{micro_batches, {}};
  module.schedule.pipeline = Hint<PipelineHint>{{PipelineKind::kGpipe}, {}};
  module.schedule.recompute = Hint<RecomputeHint>{{RecomputeHint::kAll, {}}, {}};
  const Module training = prepare(module, layer_registry(), {}).value();
  const Module inference = prepare(module, layer_registry(), {.training = false}).value();
  const auto facts = [&](const Module& prepared) {
    KernelFacts made = testing::facts_of(core);
    for (const Node& node : prepared.graph.nodes) {
      made.nodes.push_back({.prepared = std::vector<Bytes>(node.inputs.size(), 0)});
    }
    return made;
  };
  return make_plan(training, inference, facts(training), facts(inference), testing::gpus_of(core, cores), {});
}

// GPipe's Transformer with 32 micro-batches of a sequence.
Result<Plan> transformer_plan(int layers, int cores) {
  std::vector<PipelineLayer> all{{kVocabulary * kWidth, kTokens * kWidth, 0}};
  all.insert(all.end(), static_cast<size_t>(layers), {kLayerParams, kTokens * kWidth, kKept});
  all.push_back({kVocabulary * kWidth, 10, kTokens * kVocabulary});
  return gpipe_plan(kTokens, all, testing::kTpuCore, cores, 1, 32);
}

// An accelerator of 8 GiB with the rates of a core of a TPU v2.
const GpuDef kCloudTpu{"tpu_v2", 8 * kGiB, 0.35e12, 23e12, 23e12, 0, 62e9, 16e9};

// GPipe's AmoebaNet-D with 128 images in micro-batches of `rows`. A cell reads the results of the two cells before it,
// so each layer passes on two tensors.
Result<Plan> amoeba_plan(int cells, int64_t filters, int cores, int64_t rows) {
  std::vector<PipelineLayer> all;
  int64_t before = 0;
  for (const testing::KernelList& layer : testing::AmoebaNet(cells, filters).layers()) {
    all.push_back({layer.params, layer.result + before, layer.kept});
    before = layer.result;
  }
  all.back().out = 1000;
  return gpipe_plan(3 * 224 * 224, all, kCloudTpu, cores, rows, 128 / rows);
}

constexpr double kGiBs = 1.0 / static_cast<double>(kGiB);

// The memory of all cores in GiB: weights with their gradients and states, and all else.
struct Needed {
  double params = 0;
  double activations = 0;
};

Needed needed_by(const Plan& plan) {
  Needed needed;
  for (const Stage& stage : plan.training.stages) {
    needed.params += 3 * static_cast<double>(stage.parameter_bytes) * kGiBs;
  }
  for (const Arena& arena : plan.training.arenas) {
    needed.activations += arena.device == kHost ? 0 : static_cast<double>(arena.live_max) * kGiBs;
  }
  needed.activations -= needed.params;
  return needed;
}

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
    const Needed needed = needed_by(*plan);
    EXPECT_NEAR(needed.params / column.params, 1, 0.02) << column.cores;
    EXPECT_NEAR(needed.activations / column.activations, 1, 0.1) << column.cores << ": " << needed.activations;
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

TEST(Published, GpipesAmoebaNetsNeedThePublishedMemory) {
  for (const int64_t rows : {4, 8, 16}) {
  for (const auto& [cores, cells, filters, published] : {std::tuple{1, 18, 416, 3.46}, {2, 18, 544, 8.11}, {4, 36, 544, 15.21}, {8, 72, 512, 26.24}}) {
    const auto plan = amoeba_plan(cells, filters, cores, rows);
    if (!plan.ok()) { printf("%d rows %d: %s\n", (int)rows, cores, plan.error().message.c_str()); continue; }
    const Needed needed = needed_by(*plan);
    printf("%d rows %d: params %.2f act %.2f ratio %.3f\n", (int)rows, cores, needed.params, needed.activations, needed.activations/published);
  }
  }
}

}  // namespace
}  // namespace xrun::planner
