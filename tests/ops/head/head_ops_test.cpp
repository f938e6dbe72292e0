#include <cmath>
#include <gtest/gtest.h>

#include "graph/base/random.h"
#include "graph/passes/autodiff.h"
#include "ops/catalog.h"
#include "ops/simd/simd.h"
#include "tests/support/head_oracle.h"

namespace xrun::ops {
namespace {

TensorType logits_type(int64_t classes, bool sharded) {
  return {.dtype = DType::kF32, .dims = {kBatch, classes}, .sharded = sharded};
}
TensorType label_type(int64_t classes) { return {.dtype = DType::kI32, .dims = {kBatch}, .classes = classes}; }
TensorType per_row() { return {.dtype = DType::kF32, .dims = {kBatch}}; }

// Makes a head for the oracle whose class weights are unit vectors, so that its logits are the features.
test::HeadProblem dense_problem(int64_t rows, int64_t classes, double scale, double smoothing) {
  test::HeadProblem problem{
      .classes = classes, .dim = classes, .rows = rows, .margin = {.scale = scale, .smoothing = smoothing}};
  const RandomStream stream(8, 8);
  for (int64_t i = 0; i < rows * classes; ++i) {
    problem.features.push_back(3 * stream.normal(static_cast<uint64_t>(i)));
  }
  problem.weight.resize(static_cast<size_t>(classes * classes));
  for (int64_t c = 0; c < classes; ++c) {
    problem.weight[static_cast<size_t>(c * classes + c)] = 1;
  }
  for (int64_t r = 0; r < rows; ++r) {
    problem.labels.push_back(static_cast<int32_t>(r * 5 % classes));
  }
  return problem;
}

Status run(const KernelSpec& spec, const Op& op, std::vector<TensorView> inputs, std::vector<TensorView> outputs) {
  XRUN_ASSIGN(const std::unique_ptr<Kernel> kernel, op.cpu(spec));
  return kernel->run({.inputs = inputs, .outputs = outputs});
}

template <typename T>
TensorView view(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data())};
}

const Op& op_named(std::string_view name) {
  const Op* op = find_op(name);
  XRUN_CHECK(op != nullptr, name);
  return *op;
}

void expect_right_cross_entropy(bool without_target) {
  for (const Isa isa : {Isa::kAvx2, detect_isa()}) {
    for (const int64_t classes : {10, 16, 37}) {
      for (const double smoothing : {0.0, 0.2}) {
        constexpr int64_t kRows = 6;
        test::HeadProblem problem = dense_problem(kRows, classes, 2.5, smoothing);
        if (without_target) {
          problem.labels[1] = -1;
          problem.labels[4] = static_cast<int32_t>(classes);
        }
        const Attrs attrs{{"scale", 2.5}, {"smoothing", smoothing}};
        std::vector<float> loss(kRows);
        ASSERT_TRUE(run({.inputs = {logits_type(classes, false), label_type(classes)},
                         .outputs = {per_row()},
                         .attrs = attrs,
                         .rows = kRows,
                         .isa = isa},
                        op_named("softmax_ce"), {view(problem.features), view(problem.labels)}, {view(loss)}));
        std::vector<float> dloss(kRows, 0.25F);
        std::vector<float> dx(problem.features.size());
        ASSERT_TRUE(run({.inputs = {logits_type(classes, false), label_type(classes), per_row()},
                         .outputs = {logits_type(classes, false)},
                         .attrs = attrs,
                         .rows = kRows,
                         .isa = isa},
                        op_named("softmax_ce.dx"), {view(problem.features), view(problem.labels), view(dloss)},
                        {view(dx)}));
        problem.row_weight = 0.25;
        const test::HeadAnswer want = solve(problem);
        EXPECT_LE(test::relative_error(loss, want.loss), 1e-6);
        EXPECT_LE(test::relative_error(dx, want.dx), 2e-6);
      }
    }
  }
}

TEST(DenseLoss, CrossEntropyAndItsGradientMatchTheOracle) { expect_right_cross_entropy(false); }
TEST(DenseLoss, RowsWithoutATargetHaveWeightZero) { expect_right_cross_entropy(true); }

TEST(DenseLoss, AccuracyCountsTheLabelAmongTheKBestWithTiesToTheLowerClass) {
  std::vector<float> logits{1, 3,   3, 0,  //
                            1, 3,   3, 0,  //
                            5, 4,   3, 2,  //
                            5, NAN, 3, 2};
  std::vector<int32_t> labels{2, 1, 2, 0};
  for (const auto& [k, want] :
       {std::pair{int64_t{1}, std::vector<float>{0, 1, 0, 0}}, std::pair{int64_t{2}, std::vector<float>{1, 1, 0, 0}},
        std::pair{int64_t{3}, std::vector<float>{1, 1, 1, 0}}}) {
    std::vector<float> hits(4);
    ASSERT_TRUE(
        run({.inputs = {logits_type(4, false), label_type(4)}, .outputs = {per_row()}, .attrs = {{"k", k}}, .rows = 4},
            op_named("accuracy"), {view(logits), view(labels)}, {view(hits)}));
    EXPECT_EQ(hits, want) << "k " << k;
  }
}

// A sample with several positions has the mean loss over its labelled positions, and 0 if it has no labels.
TEST(DenseLoss, PositionsWithALabelAreAveraged) {
  constexpr int64_t kClasses = 20;
  constexpr int64_t kPositions = 4;
  constexpr int64_t kRows = 3;
  test::HeadProblem problem = dense_problem(kRows * kPositions, kClasses, 1, 0.1);
  problem.labels = {3, -1, 19, 0, -1, 20, -1, -1, 5, 6, 7, 8};
  const std::vector<float> counts{3, 0, 4};
  const Attrs attrs{{"smoothing", 0.1}, {"k", int64_t{5}}};
  const TensorType flat_logits = logits_type(kClasses, false);
  const TensorType flat_labels = label_type(kClasses);
  TensorType logits = flat_logits;
  TensorType labels = flat_labels;
  logits.dims = {kBatch, kPositions, kClasses};
  labels.dims = {kBatch, kPositions};
  const auto rows_of = [&](const char* op, bool flat) {
    std::vector<float> result(flat ? kRows * kPositions : kRows);
    const KernelSpec spec{.inputs = {flat ? flat_logits : logits, flat ? flat_labels : labels},
                          .outputs = {per_row()},
                          .attrs = attrs,
                          .rows = std::ssize(result)};
    EXPECT_TRUE(run(spec, op_named(op), {view(problem.features), view(problem.labels)}, {view(result)}).ok());
    return result;
  };
  for (const char* op : {"softmax_ce", "accuracy"}) {
    const std::vector<float> each = rows_of(op, true);
    const std::vector<float> means = rows_of(op, false);
    for (size_t r = 0; r < kRows; ++r) {
      double sum = 0;
      for (size_t t = 0; t < kPositions; ++t) {
        sum += static_cast<double>(each[r * kPositions + t]);
      }
      EXPECT_NEAR(means[r], sum / std::max(1.0F, counts[r]), 1e-6) << op << ", row " << r;
    }
  }
  std::vector<float> dloss{0.25F, 0.5F, 1};
  std::vector<float> dflat;
  for (size_t i = 0; i < kRows * kPositions; ++i) {
    const size_t r = i / kPositions;
    dflat.push_back(dloss[r] / std::max(1.0F, counts[r]));
  }
  std::vector<float> dx(problem.features.size());
  std::vector<float> want(problem.features.size());
  ASSERT_TRUE(run({.inputs = {logits, labels, per_row()}, .outputs = {logits}, .attrs = attrs, .rows = kRows},
                  op_named("softmax_ce.dx"), {view(problem.features), view(problem.labels), view(dloss)}, {view(dx)})
                  .ok());
  ASSERT_TRUE(run({.inputs = {flat_logits, flat_labels, per_row()},
                   .outputs = {flat_logits},
                   .attrs = attrs,
                   .rows = kRows * kPositions},
                  op_named("softmax_ce.dx"), {view(problem.features), view(problem.labels), view(dflat)}, {view(want)})
                  .ok());
  EXPECT_LE(test::relative_error(dx, std::vector<double>(want.begin(), want.end())), 1e-6);
}

TEST(DenseLoss, TopkReturnsTheBestFirst) {
  std::vector<float> logits{1, 3, 3, 0, 7, -1};
  std::vector<int32_t> classes(3);
  std::vector<float> scores(3);
  ASSERT_TRUE(run({.inputs = {logits_type(6, false)}, .outputs = {}, .attrs = {{"k", int64_t{3}}}, .rows = 1},
                  op_named("topk"), {view(logits)}, {view(classes), view(scores)}));
  EXPECT_EQ(classes, (std::vector<int32_t>{4, 1, 2}));
  EXPECT_EQ(scores, (std::vector<float>{7, 3, 3}));
}

TEST(HeadOps, HeadsOwnTheirClassWeightsAndGiveShardedLogits) {
  const TensorType x{.dtype = DType::kBF16, .dims = {kBatch, 256}};
  const Op& cosine = op_named("cosine_classifier");
  const auto shape = cosine.def.infer(std::vector{x}, {{"classes", int64_t{20902}}});
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(to_text(shape->outputs[0]), "sharded[N, 20902]");
  ASSERT_EQ(shape->params.size(), 1U);
  EXPECT_EQ(to_text(shape->params[0].type), "f32[20902, 256]");
  EXPECT_EQ(shape->params[0].init.value, 0.05);
  const auto plain = op_named("classifier").def.infer(std::vector{x}, {{"classes", int64_t{10}}, {"bias", true}});
  ASSERT_TRUE(plain.ok());
  ASSERT_EQ(plain->params.size(), 2U);
  EXPECT_EQ(plain->params[0].init.fan_in, 256);
  EXPECT_TRUE(op_named("classifier").def.head({{"bias", true}}).bias);
  EXPECT_TRUE(cosine.def.head({}).cosine);
}

TEST(HeadOps, ArgumentsOfLossesBecomeMarginForms) {
  const Attrs attrs{{"margin", 0.3}, {"scale", int64_t{32}}, {"easy", true}, {"margin_grad", std::string("threshold")}};
  const auto arc = op_named("arcface").def.margin(attrs);
  ASSERT_TRUE(arc.ok());
  EXPECT_EQ(*arc, (MarginForm{.scale = 32, .m2 = 0.3, .easy = true, .grad = MarginGrad::kThreshold}));
  const auto cos = op_named("cosface").def.margin({{"margin", 0.1}, {"scale", int64_t{24}}});
  ASSERT_TRUE(cos.ok());
  EXPECT_EQ(*cos, (MarginForm{.scale = 24, .m3 = 0.1}));
  EXPECT_FALSE(cos->angular());
  for (const char* loss : {"softmax_ce", "arcface", "cosface", "combined_margin"}) {
    const auto form = op_named(loss).def.margin(
        {{"filter", 0.4}, {"scale", 16.0}, {"m1", 1.0}, {"m2", 0.0}, {"m3", 0.0}, {"margin", 0.0}});
    ASSERT_TRUE(form.ok()) << loss;
    EXPECT_EQ(*form, (MarginForm{.scale = 16, .filter = 0.4})) << loss;
    EXPECT_TRUE(form->of_cosines()) << "a filter is of cosines, too";
  }
}

TEST(HeadOps, WrongCallsAreRejectedWithAMessage) {
  const auto message = [](const auto& result) { return result.ok() ? "accepted" : result.error().message; };
  const std::vector<TensorType> dense{logits_type(10, false), label_type(10)};
  EXPECT_EQ(message(op_named("arcface").def.infer(dense, {{"margin", 0.5}, {"scale", 64.0}})),
            "`arcface` takes the cosines of a head, not f32[N, 10]");
  const std::vector<TensorType> odd{logits_type(10, true), label_type(12)};
  EXPECT_EQ(message(op_named("softmax_ce").def.infer(odd, {})),
            "`softmax_ce` gets labels of 12 classes and logits of 10");
  EXPECT_EQ(message(op_named("softmax_ce").def.infer(dense, {{"smoothing", 1.5}})), "`softmax_ce` has smoothing = 1.5");
  EXPECT_EQ(message(op_named("softmax_ce").def.infer(dense, {{"filter", 0.4}})),
            "`softmax_ce` takes the cosines of a head, not f32[N, 10]");
  EXPECT_EQ(message(op_named("softmax_ce").def.infer(dense, {{"filter", 1.0}})), "accepted");
  for (const double filter : {0.0, -0.5, 1.5, std::nan("")}) {
    EXPECT_NE(message(op_named("cosface").def.margin({{"filter", filter}})), "accepted") << filter;
  }
  EXPECT_EQ(message(op_named("cosface").def.margin({{"filter", 1.5}})), "`cosface` has filter = 1.5");
  EXPECT_EQ(message(op_named("arcface").def.margin({{"margin_grad", std::string("bent")}})),
            "`arcface` has margin_grad = bent");
  EXPECT_NE(message(op_named("accuracy").def.infer(dense, {{"k", int64_t{11}}})), "accepted");
  EXPECT_NE(message(op_named("classifier")
                        .def.infer(std::vector<TensorType>{{.dims = {kBatch, 3, 8, 8}}}, {{"classes", int64_t{10}}})),
            "accepted");
}

TEST(HeadOps, MarginsOutOfRangeAreRejected) {
  Graph graph;
  const ValueId x = graph.add_input("x", {.dtype = DType::kF32, .dims = {kBatch, 8}});
  const ValueId label = graph.add_input("label", {.dtype = DType::kI32, .dims = {kBatch}, .classes = 5});
  const auto head = call_op(graph, find_op("cosine_classifier")->def, {x}, {{"classes", int64_t{5}}}, "id", {}).value();
  const ValueId logits = graph.node(head).outputs[0];
  const auto refused = [&](const char* op, Attrs attrs) {
    const auto node = call_op(graph, find_op(op)->def, {logits, label}, std::move(attrs), "loss", {});
    return node.ok() ? std::string() : node.error().message;
  };
  EXPECT_EQ(refused("cosface", {{"margin", 0.4}, {"scale", 64.0}}), "");
  EXPECT_EQ(refused("cosface", {{"margin", -100.0}, {"scale", 64.0}}), "`cosface` has margin = -100.0");
  EXPECT_EQ(refused("arcface", {{"margin", 1000.0}, {"scale", 64.0}, {"easy", false}}),
            "`arcface` has margin = 1000.0");
  EXPECT_EQ(refused("combined_margin", {{"m1", 1.0}, {"m2", 9.0}, {"m3", 0.0}, {"scale", 64.0}}),
            "`combined_margin` has m2 = 9.0");
}

}  // namespace
}  // namespace xrun::ops
