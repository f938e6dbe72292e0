// Winograd's kernels against the formulas in f64.
#include "ops/conv/winograd.h"

#include <gtest/gtest.h>

#include "tests/ops/op_runner.h"
#include "tests/support/naive_ops.h"

namespace xrun::ops {
namespace {

constexpr naive::Window kWindow{.k = 3, .stride = 1, .pad = 1};
constexpr int64_t kOut = 48;

// Images whose sizes are, and are not, multiples of 4 x 4 tiles, with one strip of tiles and with several.
const std::vector<naive::Image> kImages{{20, 32, 4, 4}, {6, 64, 7, 10}, {90, 32, 3, 1}, {5, 64, 16, 16}};

Attrs arguments(const naive::Image& image) {
  return {{"k", int64_t{3}},      {"stride", int64_t{1}}, {"pad", int64_t{1}},  {"dilation", int64_t{1}},
          {"groups", int64_t{1}}, {"height", image.h},    {"width_in", image.w}};
}

TensorType activation(int64_t channels, const naive::Image& image) {
  return {.dims = {kBatch, channels, image.h, image.w}};
}

size_t elements(int64_t channels, const naive::Image& image) {
  return static_cast<size_t>(image.n * channels * image.h * image.w);
}

// Runs an operator of two tensors and returns its output.
Values run_op(std::string_view op, const TensorType& a, Values a_values, const TensorType& b, Values b_values,
              Attrs attrs, int64_t rows) {
  Graph graph;
  const ValueId first = graph.add_input("a", a);
  const ValueId second = graph.add_input("b", b);
  const NodeId node = *call_op(graph, find_op(op)->def, {first, second}, std::move(attrs), "op", Span{});
  std::map<ValueId, Values> values{{first, std::move(a_values)}, {second, std::move(b_values)}};
  const Status status =
      run_graph(graph, {.kernel = {.norm_rows = rows, .deterministic = true, .isa = detect_isa()}}, values);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return values.at(graph.node(node).outputs[0]);
}

Values run_forward(const naive::Image& image, const Values& x, const Values& weight, const Values& bias) {
  Graph graph;
  const ValueId input = graph.add_input("x", activation(image.c, image));
  const NodeId node = *call_op(graph, find_op("conv")->def, {input},
                               {{"width", kOut}, {"k", int64_t{3}}, {"bias", !bias.empty()}}, "conv", Span{});
  const auto& inputs = graph.node(node).inputs;
  std::map<ValueId, Values> values{{input, x}, {inputs[1], weight}};
  if (!bias.empty()) {
    values[inputs[2]] = bias;
  }
  const Status status =
      run_graph(graph, {.kernel = {.norm_rows = image.n, .deterministic = true, .isa = detect_isa()}}, values);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return values.at(graph.node(node).outputs[0]);
}

bool is_taken(int64_t channels, int64_t pixels, int64_t rows, bool gradient_of_weight = false, Isa isa = Isa::kAvx512) {
  const TensorType image{.dims = {kBatch, channels, pixels, pixels}};
  const TensorType weight{.dims = {channels, channels, 3, 3}};
  const KernelSpec spec{.inputs = {image, gradient_of_weight ? image : weight},
                        .outputs = {gradient_of_weight ? weight : image},
                        .rows = rows,
                        .isa = isa};
  return takes_winograd(spec, {.rows = rows,
                               .channels = channels,
                               .height = pixels,
                               .width = pixels,
                               .out_channels = channels,
                               .kernel = {3, 3},
                               .pad = {1, 1}});
}

// The choice follows measurements on one core with weights outside the cache (tests/ops/kernels_bench.cpp).
TEST(Winograd, IsChosenOnlyIfItIsFaster) {
  EXPECT_TRUE(is_taken(64, 16, 64));
  EXPECT_TRUE(is_taken(128, 7, 4));
  EXPECT_TRUE(is_taken(256, 7, 64));
  EXPECT_FALSE(is_taken(64, 16, 64, false, Isa::kAvx2));
  EXPECT_FALSE(is_taken(16, 16, 64));
  // A strip has five tiles, a quarter of which is padding, so the weights of all points are read too often.
  EXPECT_FALSE(is_taken(512, 7, 4));
  EXPECT_FALSE(is_taken(512, 7, 64));
  EXPECT_FALSE(is_taken(512, 14, 16));
  EXPECT_TRUE(is_taken(512, 28, 4));
  // The sums of all points are read and written once per row block, which pays off only with enough pixels.
  EXPECT_TRUE(is_taken(512, 7, 64, true));
  EXPECT_FALSE(is_taken(256, 7, 4, true));
  EXPECT_FALSE(is_taken(32, 4, 4, true));
}

TEST(Winograd, ForwardAgreesWithTheFormula) {
  for (const naive::Image& image : kImages) {
    const Values x = random_values(elements(image.c, image), -1, 1, 1);
    const Values weight = random_values(static_cast<size_t>(kOut * image.c * 9), -1, 1, 2);
    for (const Values& bias : {Values{}, random_values(kOut, -1, 1, 3)}) {
      EXPECT_LT(
          relative_distance(run_forward(image, x, weight, bias), naive::conv(x, image, weight, bias, kOut, kWindow)),
          3e-6)
          << image.h << " x " << image.w;
    }
  }
}

TEST(Winograd, GradientOfTheInputAgreesWithTheFormula) {
  for (const naive::Image& image : kImages) {
    const Values dy = random_values(elements(kOut, image), -1, 1, 1);
    const Values weight = random_values(static_cast<size_t>(kOut * image.c * 9), -1, 1, 2);
    Values turned(weight.size());  // [c][out], windows rotated by 180 degrees
    for (int64_t o = 0; o < kOut; ++o) {
      for (int64_t c = 0; c < image.c; ++c) {
        for (int64_t at = 0; at < 9; ++at) {
          turned[static_cast<size_t>((c * kOut + o) * 9 + at)] =
              weight[static_cast<size_t>((o * image.c + c) * 9 + 8 - at)];
        }
      }
    }
    const Values dx = run_op("conv.dx", activation(kOut, image), dy, {.dims = {kOut, image.c, 3, 3}}, weight,
                             arguments(image), image.n);
    const naive::Image gradient{image.n, kOut, image.h, image.w};
    EXPECT_LT(relative_distance(dx, naive::conv(dy, gradient, turned, {}, image.c, kWindow)), 3e-6)
        << image.h << " x " << image.w;
  }
}

TEST(Winograd, GradientOfTheWeightAgreesWithTheFormula) {
  for (const naive::Image& image : kImages) {
    const Values x = random_values(elements(image.c, image), -1, 1, 1);
    const Values dy = random_values(elements(kOut, image), -1, 1, 2);
    const naive::Image gradient{image.n, kOut, image.h, image.w};
    Values wanted(static_cast<size_t>(kOut * image.c * 9));
    for (int64_t n = 0; n < image.n; ++n) {
      for (int64_t i = 0; i < image.h; ++i) {
        for (int64_t j = 0; j < image.w; ++j) {
          for (int64_t o = 0; o < kOut; ++o) {
            const double g = naive::at(dy, gradient, n, o, i, j);
            for (int64_t c = 0; c < image.c; ++c) {
              for (int64_t at = 0; at < 9; ++at) {
                wanted[static_cast<size_t>((o * image.c + c) * 9 + at)] +=
                    g * naive::at(x, image, n, c, i + at / 3 - 1, j + at % 3 - 1);
              }
            }
          }
        }
      }
    }
    const Values dw =
        run_op("conv.dw", activation(image.c, image), x, activation(kOut, image), dy, arguments(image), image.n);
    EXPECT_LT(relative_distance(dw, wanted), 3e-6) << image.h << " x " << image.w;
  }
}

TEST(Winograd, ARowHasTheSameBitsInEveryBlock) {
  const naive::Image whole{5, 64, 16, 16};
  const naive::Image one{1, 64, 16, 16};
  const Values x = random_values(elements(whole.c, whole), -1, 1, 1);
  const Values weight = random_values(static_cast<size_t>(kOut * whole.c * 9), -1, 1, 2);
  const Values y = run_forward(whole, x, weight, {});
  const auto row_x = static_cast<ptrdiff_t>(elements(one.c, one));
  const auto row_y = static_cast<ptrdiff_t>(elements(kOut, one));
  for (const int64_t row : {0, 2, 4}) {
    const Values alone(x.begin() + row * row_x, x.begin() + (row + 1) * row_x);
    EXPECT_EQ(run_forward(one, alone, weight, {}), Values(y.begin() + row * row_y, y.begin() + (row + 1) * row_y));
  }
}

}  // namespace
}  // namespace xrun::ops
