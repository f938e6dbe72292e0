// Shape inference: operators reject wrong shapes with messages that name both shapes.
#include <gtest/gtest.h>

#include "graph/graph.h"
#include "graph/limits.h"
#include "ops/op.h"

namespace xrun::ops {
namespace {

TensorType tensor(std::vector<int64_t> dims) {
  TensorType type;
  type.dims = std::move(dims);
  return type;
}

Result<OpShape> infer(std::string_view op, std::vector<TensorType> inputs, const Attrs& attrs) {
  return find_op(op)->def.infer(inputs, attrs);
}

Attrs conv(int64_t width, int64_t k, int64_t stride = 1, int64_t pad = 0, int64_t groups = 1) {
  return {{"width", width},         {"k", k},           {"stride", stride}, {"pad", pad},
          {"dilation", int64_t{1}}, {"groups", groups}, {"bias", false}};
}

struct Refusal {
  const char* op;
  std::vector<TensorType> inputs;
  Attrs attrs;
  const char* code;
  const char* says;
};

TEST(Infer, TooManyDimensionsAreRejected) {
  Graph graph;
  const auto input = [&](size_t dims) {
    TensorType type = tensor(std::vector<int64_t>(dims, 1));
    type.dims[0] = kBatch;
    graph.values.push_back({.type = type, .name = "x", .is_input = true});
    return ValueId(graph.values.size() - 1);
  };
  EXPECT_TRUE(call_op(graph, find_op("relu")->def, {input(kMostDims)}, {}, "a", {}).ok());
  const auto refused = call_op(graph, find_op("relu")->def, {input(kMostDims + 1)}, {}, "b", {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0303");
}

TEST(Infer, WrongShapesAreRejectedWithACodeAndBothShapes) {
  TensorType whole = tensor({kBatch, 4});
  whole.dtype = DType::kI32;
  TensorType sharded = tensor({kBatch, 100});
  sharded.sharded = true;
  const std::vector<Refusal> refusals{
      {"add", {tensor({kBatch, 256, 28, 28}), tensor({kBatch, 64, 28, 28})}, {}, "XG0301", "f32[N, 64, 28, 28]"},
      {"add", {tensor({kBatch}), tensor({kBatch, 1})}, {}, "XG0301", "f32[N, 1]"},
      {"add", {tensor({4, 5}), tensor({4, 5})}, {}, "XG0302", "f32[4, 5]"},
      {"matmul", {tensor({kBatch, 5, 7}), tensor({kBatch, 5, 7})}, {}, "XG0301", "f32[N, 5, 7]"},
      {"einsum", {tensor({kBatch, 5}), tensor({kBatch, 5})}, {{"rule", std::string("ni,ni")}}, "XG0303", "ni,ni"},
      {"einsum", {tensor({kBatch, 5}), tensor({kBatch, 5})}, {{"rule", std::string("ni,mi->nm")}}, "XG0301", "mix"},
      {"einsum", {tensor({kBatch, 5}), tensor({kBatch, 6})}, {{"rule", std::string("ni,ni->n")}}, "XG0301", "[N, 6]"},
      {"einsum", {tensor({kBatch, 5, 5}), tensor({kBatch})}, {{"rule", std::string("nii,n->n")}}, "XG0303", "nii"},
      {"einsum", {tensor({kBatch, 5}), tensor({kBatch})}, {{"rule", std::string("ni,n->nj")}}, "XG0303", "letter"},
      {"conv", {tensor({kBatch, 3, 4, 4})}, conv(8, 7), "XG0301", "f32[N, 3, 4, 4]"},
      {"conv", {tensor({kBatch, 6, 8, 8})}, conv(8, 3, 1, 1, 4), "XG0301", "6 channels"},
      {"conv", {tensor({kBatch, 6})}, conv(8, 3), "XG0302", "f32[N, 6]"},
      {"conv", {tensor({kBatch, 6, 8, 8})}, conv(8, 3, 0), "XG0303", "stride = 0"},
      {"conv", {tensor({kBatch, 6, 8, 8})}, conv(0, 3), "XG0303", "width = 0"},
      {"linear", {tensor({kBatch})}, {{"out", int64_t{3}}}, "XG0302", "f32[N]"},
      {"layer_norm", {tensor({kBatch})}, {{"eps", 1e-6}}, "XG0302", "f32[N]"},
      {"linear", {whole}, {{"out", int64_t{3}}}, "XG0304", "i32[N, 4]"},
      {"cast", {tensor({kBatch, 4})}, {{"to", "f8"}}, "XG0303", "f32, bf16 or f16"},
      {"softmax", {sharded}, {{"axis", int64_t{-1}}}, "XG0305", "sharded[N, 100]"},
      {"softmax", {tensor({kBatch, 4})}, {{"axis", int64_t{2}}}, "XG0303", "axis = 2"},
      {"mean", {tensor({kBatch, 4})}, {{"axis", int64_t{0}}}, "XG0303", "axis 0"},
      {"reshape", {tensor({kBatch, 12})}, {{"shape", std::vector<int64_t>{kBatch, 5}}}, "XG0301", "12 and 5"},
      {"reshape", {tensor({kBatch, 12})}, {{"shape", std::vector<int64_t>{12}}}, "XG0301", "batch"},
      {"concat", {tensor({kBatch, 3, 2}), tensor({kBatch, 3, 4})}, {{"axis", int64_t{1}}}, "XG0301", "f32[N, 3, 4]"},
      {"slice",
       {tensor({kBatch, 3})},
       {{"axis", int64_t{1}}, {"begin", int64_t{2}}, {"end", int64_t{4}}},
       "XG0303",
       "end = 4"},
      {"dropout", {tensor({kBatch, 3})}, {{"p", 1.0}}, "XG0303", "p = 1"},
      {"clamp", {tensor({kBatch, 3})}, {{"a", 1.0}, {"b", 0.0}}, "XG0303", "a = 1"},
      {"bn", {tensor({kBatch, 3, 4})}, {{"momentum", 0.1}, {"eps", 1e-5}}, "XG0302", "f32[N, 3, 4]"},
      {"max_pool",
       {tensor({kBatch, 3, 4, 4})},
       {{"k", int64_t{3}}, {"stride", int64_t{1}}, {"pad", int64_t{3}}},
       "XG0303",
       "pad = 3"},
      {"attention",
       {tensor({kBatch, 12, 10})},
       {{"heads", int64_t{2}}, {"qkv_bias", true}, {"window", int64_t{2}}},
       "XG0301",
       "12"},
      {"attention",
       {tensor({kBatch, 16, 10})},
       {{"heads", int64_t{2}}, {"qkv_bias", true}, {"window", int64_t{3}}},
       "XG0301",
       "windows of 3 x 3"},
      {"attention",
       {tensor({kBatch, 16, 10})},
       {{"heads", int64_t{2}}, {"qkv_bias", true}, {"window", int64_t{2}}, {"shift", int64_t{2}}},
       "XG0303",
       "shift = 2"},
      {"attention", {tensor({kBatch, 5, 10})}, {{"heads", int64_t{3}}, {"qkv_bias", true}}, "XG0301", "f32[N, 5, 10]"},
  };
  for (const Refusal& r : refusals) {
    const auto shape = infer(r.op, r.inputs, r.attrs);
    ASSERT_FALSE(shape.ok()) << r.op;
    EXPECT_EQ(shape.error().code, r.code) << shape.error().message;
    EXPECT_NE(shape.error().message.find(r.says), std::string::npos) << shape.error().message;
    EXPECT_FALSE(shape.error().help.empty()) << shape.error().message;
  }
}

TEST(Infer, HugeTensorsAreRejectedBeforeTheirSizesOverflow) {
  Graph graph;
  const ValueId x = graph.add_input("x", tensor({kBatch, int64_t{1} << 32}));
  EXPECT_EQ(call_op(graph, find_op("linear")->def, {x}, {{"out", int64_t{1} << 32}, {"bias", false}}, "a", Span{})
                .error()
                .code,
            "XG0303");
  EXPECT_FALSE(call_op(graph, find_op("reshape")->def, {x},
                       {{"shape", std::vector<int64_t>{kBatch, int64_t{1} << 32, int64_t{1} << 32, int64_t{1} << 32}}},
                       "b", Span{})
                   .ok());
  const ValueId wide = graph.add_input("y", tensor({kBatch, int64_t{1} << 40, int64_t{1} << 40}));
  EXPECT_FALSE(call_op(graph, find_op("relu")->def, {wide}, {}, "c", Span{}).ok());
}

TEST(Infer, ConvFollowsTheSizeFormula) {
  const auto shape = infer("conv", {tensor({kBatch, 3, 224, 112})}, conv(64, 7, 2, 3));
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(to_text(shape->outputs[0]), "f32[N, 64, 112, 56]");
  EXPECT_EQ(to_text(shape->params[0].type), "f32[64, 3, 7, 7]");
  EXPECT_EQ(shape->params[0].init.fan_in, 147);
}

TEST(Infer, FlattenAndDropoutThatChangeNothingAreIdentities) {
  const std::vector<TensorType> features{tensor({kBatch, 8})};
  const std::vector<TensorType> image{tensor({kBatch, 8, 2, 2})};
  EXPECT_TRUE(find_op("flatten")->def.is_identity(features, {{"from", int64_t{1}}}));
  EXPECT_FALSE(find_op("flatten")->def.is_identity(image, {{"from", int64_t{1}}}));
  EXPECT_TRUE(find_op("dropout")->def.is_identity(features, {{"p", 0.0}}));
  EXPECT_FALSE(find_op("dropout")->def.is_identity(features, {{"p", 0.1}}));
}

TEST(Infer, AConvolutionCostsTwoFlopsForEachMultiplyAdd) {
  const std::vector<TensorType> inputs{tensor({kBatch, 32, 16, 16}), tensor({64, 32, 3, 3})};
  const std::vector<TensorType> outputs{tensor({kBatch, 64, 16, 16})};
  EXPECT_EQ(find_op("conv")->def.cost(inputs, outputs, conv(64, 3, 1, 1)).flops, 2.0 * 64 * 16 * 16 * 32 * 9);
}

// A row-wise operator does twice the work on twice the positions or classes.
TEST(Infer, CostsGrowWithTheElementsThatAreRead) {
  const auto flops = [](const char* op, std::vector<TensorType> inputs, std::vector<TensorType> outputs, Attrs attrs) {
    return find_op(op)->def.cost(inputs, outputs, attrs).flops;
  };
  const auto logits = [](int64_t positions, int64_t classes) { return tensor({kBatch, positions, classes}); };
  for (const int64_t grown : {2, 10}) {
    for (const bool of_classes : {false, true}) {
      const TensorType few = logits(64, 100);
      const TensorType many = of_classes ? logits(64, 100 * grown) : logits(64 * grown, 100);
      const TensorType label = tensor({kBatch, 64});
      const auto rate = static_cast<double>(grown);
      EXPECT_EQ(flops("softmax_ce", {many, label}, {tensor({kBatch})}, {}),
                rate * flops("softmax_ce", {few, label}, {tensor({kBatch})}, {}));
      EXPECT_EQ(flops("softmax_ce.dx", {many, label, tensor({kBatch})}, {many}, {}),
                rate * flops("softmax_ce.dx", {few, label, tensor({kBatch})}, {few}, {}));
      EXPECT_EQ(flops("accuracy", {many, label}, {tensor({kBatch})}, {}),
                rate * flops("accuracy", {few, label}, {tensor({kBatch})}, {}));
    }
  }
  // The five best classes are found in one pass over all classes, not in five passes.
  EXPECT_EQ(flops("topk", {tensor({kBatch, 1000})}, {tensor({kBatch, 5}), tensor({kBatch, 5})}, {{"k", int64_t{5}}}),
            flops("topk", {tensor({kBatch, 1000})}, {tensor({kBatch, 1}), tensor({kBatch, 1})}, {{"k", int64_t{1}}}));
  // The gradient of a pool visits each window once, like the pool itself.
  const Attrs pool{{"k", int64_t{7}},
                   {"stride", int64_t{7}},
                   {"pad", int64_t{0}},
                   {"height", int64_t{56}},
                   {"width_in", int64_t{56}}};
  const TensorType image = tensor({kBatch, 8, 56, 56});
  const TensorType windows = tensor({kBatch, 8, 8, 8});
  EXPECT_EQ(flops("avg_pool.grad", {windows}, {image}, pool), flops("avg_pool", {image}, {windows}, pool));
  EXPECT_EQ(flops("max_pool.grad", {image, windows}, {image}, pool), flops("max_pool", {image}, {windows}, pool));
}

}  // namespace
}  // namespace xrun::ops
