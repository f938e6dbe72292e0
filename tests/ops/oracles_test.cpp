// Compares kernels with the formulas in f64, and tests the special cases of single operators.
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <thread>

#include "ops/dnn/window.h"
#include "tests/ops/op_runner.h"
#include "tests/support/naive_ops.h"

namespace xrun::ops {
namespace {

// A call with random operands, run on one row block.
struct Called {
  Graph graph;
  NodeId node;
  std::map<ValueId, Values> values;

  Called(std::string_view op, std::vector<std::vector<int64_t>> inputs, Attrs attrs, const KernelOptions& options,
         double low = -1, double high = 1, DType dtype = DType::kF32, int64_t first_row = 0) {
    std::vector<ValueId> ids;
    for (const auto& dims : inputs) {
      TensorType type;
      type.dtype = dtype;
      type.dims = {kBatch};
      type.dims.insert(type.dims.end(), dims.begin(), dims.end());
      ids.push_back(graph.add_input("x", type));
    }
    node = *call_op(graph, find_op(op)->def, ids, std::move(attrs), "op", Span{});
    const auto& all = graph.node(node).inputs;
    for (size_t i = 0; i < all.size(); ++i) {
      const TensorType& type = graph.value(all[i]).type;
      const auto n = static_cast<size_t>(type.elements(options.norm_rows, options.norm_rows));
      values[all[i]] = i < ids.size() ? random_values(n, low, high, i + 1) : random_values(n, 0.5, 1.5, i + 1);
    }
    const Status status = run_graph(graph, {.kernel = options, .first_row = first_row}, values);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
  const Values& input(size_t i) const { return values.at(graph.node(node).inputs[i]); }
  const Values& output(size_t i) const { return values.at(graph.node(node).outputs[i]); }
};

AttrValue to_attr(const naive::Pair& pair) { return ops::to_attr(Extents{pair.h, pair.w}); }

KernelOptions rows(int64_t n, bool training = true) {
  return {.norm_rows = n, .training = training, .deterministic = true, .isa = detect_isa()};
}

TEST(Conv, AgreesWithTheFormulaForStridesPadsDilationsAndGroups) {
  const naive::Image image{3, 8, 9, 7};
  for (const naive::Window& w : {naive::Window{3, 1, 1},
                                 {3, 2, 1},
                                 {1, 1, 0},
                                 {5, 2, 2},
                                 {3, 1, 2, 2},
                                 {3, 1, 1, 1, 4},
                                 {2, 2, 0},
                                 {{1, 7}, 1, {0, 3}},
                                 {{4, 2}, {1, 3}, {2, 0}, {2, 1}}}) {
    for (const bool bias : {false, true}) {
      const Called c("conv", {{image.c, image.h, image.w}},
                     {{"width", int64_t{12}},
                      {"k", to_attr(w.k)},
                      {"stride", to_attr(w.stride)},
                      {"pad", to_attr(w.pad)},
                      {"dilation", to_attr(w.dilation)},
                      {"groups", w.groups},
                      {"bias", bias}},
                     rows(image.n));
      const Values wanted = naive::conv(c.input(0), image, c.input(1), bias ? c.input(2) : Values{}, 12, w);
      EXPECT_LT(relative_distance(c.output(0), wanted), 1e-5)
          << "k=" << w.k.h << " x " << w.k.w << " stride=" << w.stride.h << " groups=" << w.groups;
    }
  }
}

// oneDNN chooses among many implementations by shape. Each must agree with the formula and stay within its memory
// (Memory).
TEST(Conv, RandomShapesStayWithinTheirMemory) {
  constexpr uint64_t kSeed = 20261125;
  const RandomStream stream(kSeed, 1);
  uint64_t draws = 0;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(stream.below(draws++, static_cast<uint64_t>(n))); };
  for (int i = 0; i < 300; ++i) {
    const auto pair = [&](int64_t n) {
      return below(2) == 0 ? naive::Pair(1 + below(n)) : naive::Pair(1 + below(n), 1 + below(n));
    };
    naive::Window w{.k = pair(4), .stride = pair(3)};
    w.pad = below(2) == 0 ? naive::Pair(0) : naive::Pair(w.k.h / 2, w.k.w / 2);
    w.dilation = below(4) == 0 ? pair(2) : naive::Pair(1);
    w.groups = below(4) == 0 ? 1 + below(3) : 1;
    const int64_t channels = w.groups * (1 + below(20));
    const int64_t out = w.groups * (1 + below(20));
    const naive::Image image{1 + below(3), channels, 8 + below(10), 8 + below(10)};
    SCOPED_TRACE(fmt::format("seed {}, shape {}: {} x {} x {} x {} to {}, k {} x {}, stride {} x {}, groups {}", kSeed,
                             i, image.n, image.c, image.h, image.w, out, w.k.h, w.k.w, w.stride.h, w.stride.w,
                             w.groups));
    const Attrs attrs{{"width", out},
                      {"k", to_attr(w.k)},
                      {"stride", to_attr(w.stride)},
                      {"pad", to_attr(w.pad)},
                      {"dilation", to_attr(w.dilation)},
                      {"groups", w.groups},
                      {"bias", false}};
    const Called forward("conv", {{image.c, image.h, image.w}}, attrs, rows(image.n));
    EXPECT_LT(relative_distance(forward.output(0), naive::conv(forward.input(0), image, forward.input(1), {}, out, w)),
              1e-5);
    Attrs backward = attrs;
    backward.set("height", image.h);
    backward.set("width_in", image.w);
    // If dw and y are linear in w, the sum of dw · w equals the sum of y · dy.
    const Called gradient("conv.dw", {{image.c, image.h, image.w}, {out, w.out_h(image), w.out_w(image)}}, backward,
                          rows(image.n));
    const Values y = naive::conv(gradient.input(0), image, forward.input(1), {}, out, w);
    double by_weight = 0;
    double by_output = 0;
    double size = 0;
    for (size_t j = 0; j < y.size(); ++j) {
      by_output += y[j] * gradient.input(1)[j];
      size += std::fabs(y[j] * gradient.input(1)[j]);
    }
    for (size_t j = 0; j < gradient.output(0).size(); ++j) {
      by_weight += gradient.output(0)[j] * forward.input(1)[j];
    }
    EXPECT_NEAR(by_weight, by_output, 1e-5 * size);
  }
}

TEST(Kernel, OneObjectRunsInSeveralThreadsAtOnceWithTheSameBits) {
  Graph graph;
  TensorType x;
  x.dims = {kBatch, 16, 8, 8};
  const ValueId id = graph.add_input("x", x);
  const NodeId node = *call_op(graph, find_op("conv")->def, {id},
                               {{"width", int64_t{32}}, {"k", int64_t{3}}, {"bias", false}}, "conv", Span{});
  const auto kernel = make_kernel(graph, graph.node(node), rows(8));
  ASSERT_TRUE(kernel.ok());
  const auto bytes_of = [&](ValueId value) { return graph.value(value).type.bytes(8, 8); };
  const ValueId weight = graph.node(node).inputs[1];
  const ValueId y = graph.node(node).outputs[0];
  const Memory input(bytes_of(id));
  const Memory plain(bytes_of(weight));
  const Memory prepared((*kernel)->prepared_bytes(1));
  const Memory scratch((*kernel)->scratch_bytes());
  write_values(graph.value(id).type, 8, random_values(8 * 16 * 64, -1, 1, 1), input.data());
  write_values(graph.value(weight).type, 8, random_values(32 * 16 * 9, -1, 1, 2), plain.data());
  ASSERT_TRUE((*kernel)->prepare(1, {plain.data()}, prepared.data(), scratch.data()).ok());
  const std::array<TensorView, 2> inputs{TensorView{input.data()}, TensorView{prepared.data()}};
  std::vector<Values> results(4);
  std::vector<std::thread> threads;
  for (Values& result : results) {
    threads.emplace_back([&] {
      const Memory own((*kernel)->scratch_bytes());
      const Memory output(bytes_of(y));
      const std::array<TensorView, 1> outputs{TensorView{output.data()}};
      for (int i = 0; i < 50; ++i) {
        XRUN_CHECK((*kernel)->run({.inputs = inputs, .outputs = outputs, .scratch = own.data()}).ok(),
                   "the kernel runs");
      }
      result = read_values(graph.value(y).type, 8, output.data());
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const Values& result : results) {
    EXPECT_EQ(result, results[0]);
  }
}

TEST(Linear, AgreesWithTheFormula) {
  const Called c("linear", {{21}}, {{"out", int64_t{34}}, {"bias", true}}, rows(5));
  EXPECT_LT(relative_distance(c.output(0), naive::linear(c.input(0), c.input(1), c.input(2), 5, 21, 34)), 1e-5);
}

TEST(Pool, AgreesWithTheFormula) {
  const naive::Image image{2, 19, 7, 8};
  for (const naive::Window& w : {naive::Window{3, 2, 1}, {2, 2, 0}, {5, 1, 2}, {{2, 3}, {1, 2}, {1, 0}}}) {
    for (const bool largest : {false, true}) {
      const Called c(largest ? "max_pool" : "avg_pool", {{image.c, image.h, image.w}},
                     {{"k", to_attr(w.k)}, {"stride", to_attr(w.stride)}, {"pad", to_attr(w.pad)}}, rows(image.n));
      EXPECT_LT(relative_distance(c.output(0), naive::pool(c.input(0), image, w, largest)), 1e-6);
    }
  }
}

TEST(MaxPool, PropagatesNan) {
  KernelOptions options = rows(1);
  Called c("max_pool", {{1, 2, 2}}, {{"k", int64_t{2}}, {"stride", int64_t{2}}, {"pad", int64_t{0}}}, options);
  for (size_t at = 0; at < 4; ++at) {
    Values x{1, 2, 3, 4};
    x[at] = NAN;
    c.values[c.graph.node(c.node).inputs[0]] = x;
    ASSERT_TRUE(run_graph(c.graph, {.kernel = options}, c.values).ok());
    EXPECT_TRUE(std::isnan(c.output(0)[0])) << at;
  }
}

TEST(BatchNorm, AgreesWithTheFormulaEvenWhereTheMeanIsLarge) {
  const naive::Image image{6, 21, 4, 5};
  for (const double shift : {0.0, 1000.0}) {
    const Called c("bn", {{image.c, image.h, image.w}}, {{"momentum", 0.1}, {"eps", 1e-5}}, rows(image.n), shift - 1,
                   shift + 1);
    const naive::Normalized wanted = naive::batch_norm(c.input(0), image, c.input(1), c.input(2), 1e-5);
    EXPECT_LT(relative_distance(c.output(1), wanted.mean), 1e-5);
    EXPECT_LT(relative_distance(c.output(2), wanted.var), shift == 0 ? 1e-5 : 1e-3);
    EXPECT_LT(relative_distance(c.output(0), wanted.y), shift == 0 ? 1e-5 : 1e-3);
  }
}

TEST(BatchNorm, UsesRunningStatisticsOutsideTraining) {
  const Called c("bn", {{5}}, {{"momentum", 0.1}, {"eps", 1e-5}}, rows(3, false));
  for (size_t i = 0; i < 15; ++i) {
    const size_t ch = i % 5;
    const double wanted =
        c.input(1)[ch] * (c.input(0)[i] - c.input(3)[ch]) / std::sqrt(c.input(4)[ch] + 1e-5) + c.input(2)[ch];
    EXPECT_NEAR(c.output(0)[i], wanted, 1e-5);
  }
}

TEST(BatchNorm, RunningStatisticsAreUpdatedOnceWithAllBlocks) {
  Graph graph;
  TensorType x;
  x.dims = {kBatch, 2};
  const ValueId id = graph.add_input("x", x);
  const NodeId node = *call_op(graph, find_op("bn")->def, {id}, {{"momentum", 0.25}, {"eps", 1e-5}}, "bn", Span{});
  const auto kernel = make_kernel(graph, graph.node(node), rows(4));
  ASSERT_TRUE(kernel.ok());
  std::vector<float> mean{1, 10, 3, 20};  // [2 blocks, 2 channels]
  std::vector<float> var{0.5F, 1, 1.5F, 3};
  std::vector<float> running_mean{0, 8};
  std::vector<float> running_var{1, 1};
  const auto view = [](std::vector<float>& v) { return TensorView{reinterpret_cast<std::byte*>(v.data())}; };
  const std::vector<TensorView> inputs{{}, {}, {}, view(running_mean), view(running_var)};
  const std::vector<TensorView> outputs{{}, view(mean), view(var)};
  ASSERT_TRUE((*kernel)->fold_states(inputs, outputs, 2).ok());
  EXPECT_FLOAT_EQ(running_mean[0], 0.25F * 2);
  EXPECT_FLOAT_EQ(running_mean[1], 0.75F * 8 + 0.25F * 15);
  EXPECT_FLOAT_EQ(running_var[0], 0.75F * 1 + 0.25F * (1 + 1));  // (0.5 + 1 + 1.5 + 1) / 2
  EXPECT_FLOAT_EQ(running_var[1], 0.75F * 1 + 0.25F * (2 + 25));
}

// state = 0.5 state + mean of x - mean of y, over 300 elements, which is more than a block of the interpreter.
TEST(StateUpdate, ComputesTheStateFromTheMeansOfAllBlocks) {
  constexpr size_t kElements = 300;
  Graph graph;
  TensorType type;
  type.dims = {kBatch, kElements};
  const ValueId x = graph.add_input("x", type);
  const ValueId y = graph.add_input("y", type);
  const NodeId node = *call_op(graph, find_op("state.update")->def, {x, y}, {{"y", std::string("0.5 * x0 + x1 - x2")}},
                               "update", Span{});
  const auto kernel = make_kernel(graph, graph.node(node), rows(4));
  ASSERT_TRUE(kernel.ok());
  std::vector<float> state(kElements);
  std::vector<float> means_of_x(2 * kElements);  // [2 blocks, elements]
  std::vector<float> means_of_y(2 * kElements);
  for (size_t i = 0; i < kElements; ++i) {
    const auto number = static_cast<float>(i);
    state[i] = number;
    means_of_x[i] = number + 1;
    means_of_x[kElements + i] = number + 3;
    means_of_y[i] = 8;
    means_of_y[kElements + i] = -2;
  }
  const auto view = [](std::vector<float>& v) { return TensorView{reinterpret_cast<std::byte*>(v.data())}; };
  const std::vector<TensorView> inputs{{}, {}, view(state)};
  const std::vector<TensorView> outputs{view(means_of_x), view(means_of_y)};
  ASSERT_TRUE((*kernel)->fold_states(inputs, outputs, 2).ok());
  for (size_t i = 0; i < kElements; ++i) {
    const auto number = static_cast<float>(i);
    EXPECT_EQ(state[i], 0.5F * number + (number + 2) - 3) << i;
  }
}

TEST(Dropout, KeepsTheRightShareAndScalesIt) {
  const Called c("dropout", {{5000}}, {{"p", 0.3}}, rows(8), 1, 1);
  const auto kept = std::count_if(c.output(0).begin(), c.output(0).end(), [](double v) { return v != 0; });
  EXPECT_NEAR(static_cast<double>(kept) / 40000, 0.7, 0.01);
  EXPECT_TRUE(std::all_of(c.output(0).begin(), c.output(0).end(),
                          [](double v) { return v == 0 || std::abs(v - 1 / 0.7) < 1e-6; }));
}

TEST(Dropout, DropsEverythingIfTheProbabilityIsNearlyOne) {
  const Called c("dropout", {{500}}, {{"p", 1 - 1e-11}}, rows(8), 1, 1);
  EXPECT_TRUE(std::all_of(c.output(0).begin(), c.output(0).end(), [](double v) { return v == 0; }));
}

TEST(Dropout, DependsOnThePositionInTheGlobalBatchAndNotOnTheBlock) {
  const Called whole("dropout", {{50}}, {{"p", 0.5}}, rows(8), 1, 1);
  const Called half("dropout", {{50}}, {{"p", 0.5}}, rows(4), 1, 1, DType::kF32, 4);
  EXPECT_EQ(Values(whole.output(0).begin() + 200, whole.output(0).end()), half.output(0));
  EXPECT_NE(Values(whole.output(0).begin(), whole.output(0).begin() + 200), half.output(0));
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  const Called c("dropout", {{50}}, {{"p", 0.5}}, rows(4, false));
  EXPECT_EQ(c.output(0), c.input(0));
}

TEST(Relu, PropagatesNan) {
  KernelOptions options = rows(1);
  Called c("relu", {{3}}, {}, options);
  c.values[c.graph.node(c.node).inputs[0]] = {NAN, -1, 2};
  ASSERT_TRUE(run_graph(c.graph, {.kernel = options}, c.values).ok());
  EXPECT_TRUE(std::isnan(c.output(0)[0]));
  EXPECT_EQ(c.output(0)[1], 0);
  EXPECT_EQ(c.output(0)[2], 2);
}

TEST(Embed, PicksRowsAndSumsTheirGradientsAndRejectsNumbersWithoutARow) {
  Graph graph;
  TensorType x;
  x.dtype = DType::kI32;
  x.dims = {kBatch, 3};
  x.classes = 5;
  const ValueId id = graph.add_input("x", x);
  const NodeId node =
      *call_op(graph, find_op("embed")->def, {id}, {{"rows", int64_t{5}}, {"dim", int64_t{2}}}, "e", Span{});
  const ValueId dy = graph.add_input("dy", graph.value(graph.node(node).outputs[0]).type);
  GradBuilder builder(graph, registry(), node, {dy}, {false, true});
  ASSERT_TRUE(find_op("embed")->def.grad(builder).ok());
  std::vector<int32_t> numbers{4, 0, 4, 1, 4, 0};
  std::vector<float> table(10);
  std::vector<float> slopes(12);
  for (size_t i = 0; i < 12; ++i) {
    slopes[i] = static_cast<float>(i + 1);
    table[i % 10] = static_cast<float>(10 * (i % 10));
  }
  std::vector<float> y(12);
  std::vector<float> sums(10);
  const auto view = [](auto& v) { return TensorView{reinterpret_cast<std::byte*>(v.data())}; };
  const auto forward = make_kernel(graph, graph.node(node), rows(2));
  const auto backward = make_kernel(graph, graph.nodes.back(), rows(2));
  const std::array<TensorView, 2> in{view(numbers), view(table)};
  const std::array<TensorView, 1> out{view(y)};
  ASSERT_TRUE((*forward)->run({.inputs = in, .outputs = out}).ok());
  EXPECT_EQ(y, (std::vector<float>{80, 90, 0, 10, 80, 90, 20, 30, 80, 90, 0, 10}));
  const std::array<TensorView, 2> grad_in{view(numbers), view(slopes)};
  const std::array<TensorView, 1> grad_out{view(sums)};
  ASSERT_TRUE((*backward)->run({.inputs = grad_in, .outputs = grad_out}).ok());
  EXPECT_EQ(sums, (std::vector<float>{3 + 11, 4 + 12, 7, 8, 0, 0, 0, 0, 1 + 5 + 9, 2 + 6 + 10}));
  numbers[2] = 5;
  EXPECT_EQ((*forward)->run({.inputs = in, .outputs = out}).error().code, "XG0402");
}

TEST(Flatten, FollowsTheLogicalOrderOfChannels) {
  const Called c("flatten", {{3, 2, 2}}, {{"from", int64_t{1}}}, rows(2));
  EXPECT_EQ(c.output(0), c.input(0));  // both are read in logical order
}

TEST(LaneMath, ElementaryFunctionsAgreeWithTheLibrary) {
  struct Row {
    const char* op;
    double (*function)(double);
    double low, high, tolerance;
  };
  for (const Row& row :
       {Row{"exp", std::exp, -80, 80, 3e-7}, Row{"log", std::log, 1e-6, 1e6, 3e-7}, Row{"tanh", std::tanh, -9, 9, 3e-7},
        Row{"sin", std::sin, -3, 3, 3e-7}, Row{"erf", std::erf, -3, 3, 3e-7}}) {
    const Called c(row.op, {{1000}}, {}, rows(2), row.low, row.high);
    for (size_t i = 0; i < c.output(0).size(); ++i) {
      const double wanted = row.function(static_cast<double>(static_cast<float>(c.input(0)[i])));
      ASSERT_NEAR(c.output(0)[i], wanted, row.tolerance * (std::abs(wanted) + 1e-2))
          << row.op << "(" << c.input(0)[i] << ")";
    }
  }
}

TEST(LaneMath, ExpHandlesUnderflowOverflowAndNan) {
  KernelOptions options = rows(1);
  Called c("exp", {{5}}, {}, options);
  c.values[c.graph.node(c.node).inputs[0]] = {-200, 0, 89, NAN, -INFINITY};
  ASSERT_TRUE(run_graph(c.graph, {.kernel = options}, c.values).ok());
  EXPECT_EQ(c.output(0)[0], 0);
  EXPECT_EQ(c.output(0)[1], 1);
  EXPECT_EQ(c.output(0)[2], INFINITY);
  EXPECT_TRUE(std::isnan(c.output(0)[3]));
  EXPECT_EQ(c.output(0)[4], 0);
}

TEST(Bf16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(to_bf16(1.0F).bits, 0x3F80);
  EXPECT_EQ(to_bf16(1.00390625F).bits, 0x3F80);  // half way: to even
  EXPECT_EQ(to_bf16(1.01171875F).bits, 0x3F82);  // half way: to even, upwards
  EXPECT_EQ(to_bf16(1.0040F).bits, 0x3F81);
  EXPECT_TRUE(std::isnan(to_float(to_bf16(NAN))));
  EXPECT_TRUE(std::isinf(to_float(to_bf16(3.4e38F))));
}

}  // namespace
}  // namespace xrun::ops
