// Weight gradients of depthwise convolutions: random windows, strides, paddings and numbers of channels against the
// formula, with the same bits on every instruction set and in parts.
#include "ops/depthwise_gradient.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/catalog.h"
#include "ops/window.h"
#include "tests/ops/knn_oracle.h"
#include "tests/ops/op_runner.h"
#include "tests/support/naive_ops.h"

namespace xrun::ops {
namespace {

// The gradient in f64, [C, 1, k.h, k.w].
Values by_formula(const Values& x, const naive::Image& image, const Values& dy, const naive::Window& w) {
  const naive::Image out{image.n, image.c, w.out_h(image), w.out_w(image)};
  Values dw;
  for (int64_t c = 0; c < image.c; ++c) {
    for (int64_t u = 0; u < w.k.h; ++u) {
      for (int64_t v = 0; v < w.k.w; ++v) {
        double sum = 0;
        for (int64_t n = 0; n < image.n; ++n) {
          for (int64_t i = 0; i < out.h; ++i) {
            for (int64_t j = 0; j < out.w; ++j) {
              sum += naive::at(dy, out, n, c, i, j) * naive::at(x, image, n, c,
                                                                i * w.stride.h + u * w.dilation.h - w.pad.h,
                                                                j * w.stride.w + v * w.dilation.w - w.pad.w);
            }
          }
        }
        dw.push_back(sum);
      }
    }
  }
  return dw;
}

Extents extents(const naive::Pair& pair) { return {pair.h, pair.w}; }

TEST(DepthwiseGradient, OfRandomConvolutionsIsThatOfTheFormula) {
  constexpr uint64_t kSeed = 20261127;
  const RandomStream stream(kSeed, 1);
  uint64_t draws = 0;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(stream.below(draws++, static_cast<uint64_t>(n))); };
  const auto pair = [&](int64_t low, int64_t n) {
    return below(2) == 0 ? naive::Pair(low + below(n)) : naive::Pair(low + below(n), low + below(n));
  };
  for (int i = 0; i < 60; ++i) {
    const naive::Window w{.k = pair(1, 8), .stride = pair(1, 3), .pad = pair(0, 5), .dilation = pair(1, 2)};
    const naive::Image image{1 + below(3), 2 + below(40), 14 + below(6), 14 + below(6)};
    SCOPED_TRACE(fmt::format("seed {}, convolution {}: {} x {} x {} x {}, k {} x {}, stride {} x {}, pad {} x {}",
                             kSeed, i, image.n, image.c, image.h, image.w, w.k.h, w.k.w, w.stride.h, w.stride.w,
                             w.pad.h, w.pad.w));
    const dnn::ConvShape shape{.rows = image.n,
                               .channels = image.c,
                               .height = image.h,
                               .width = image.w,
                               .out_channels = image.c,
                               .kernel = extents(w.k),
                               .stride = extents(w.stride),
                               .pad = extents(w.pad),
                               .dilation = extents(w.dilation),
                               .groups = image.c};
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const TensorType in{.dtype = dtype, .dims = {kBatch, image.c, image.h, image.w}, .layout = Layout::kChannelsLast};
      TensorType out = in;
      out.dims = {kBatch, image.c, shape.out_height(), shape.out_width()};
      const TensorType weight{.dtype = DType::kF32, .dims = {image.c, 1, w.k.h, w.k.w}};
      const auto written = [&](const TensorType& type, uint64_t seed) {
        Memory memory(type.bytes(image.n, image.n));
        write_values(type, image.n, random_values(static_cast<size_t>(type.row_elements() * image.n), -1, 1, seed),
                     memory.data());
        return memory;
      };
      const Memory x = written(in, draws++);
      const Memory dy = written(out, draws++);
      Values first;
      for (const Isa isa : all_isas()) {
        KernelSpec spec{.inputs = {in, out}, .outputs = {weight}, .rows = image.n, .isa = isa};
        const std::unique_ptr<Kernel> kernel = make_depthwise_gradient(spec, shape).value();
        for (const int64_t parts : {int64_t{1}, kernel->parts()}) {
          const Memory dw(weight.bytes(1, 1));
          std::fill_n(reinterpret_cast<float*>(dw.data()), weight.row_elements(), 0.5F);  // to which the call adds
          for (int64_t part = 0; part < parts; ++part) {
            const Memory scratch(kernel->scratch_bytes());
            std::memset(scratch.data(), 0xFF, static_cast<size_t>(kernel->scratch_bytes()));
            const TensorView inputs[] = {{x.data()}, {dy.data()}};
            const TensorView outputs[] = {{dw.data()}};
            ASSERT_TRUE(
                kernel
                    ->run(
                        {.inputs = inputs, .outputs = outputs, .scratch = scratch.data(), .part = part, .parts = parts})
                    .ok());
          }
          const Values values = read_values(weight, 1, dw.data());
          if (first.empty()) {
            first = values;
            Values wanted =
                by_formula(read_values(in, image.n, x.data()), image, read_values(out, image.n, dy.data()), w);
            std::ranges::transform(wanted, wanted.begin(), [](double value) { return value + 0.5; });
            for (size_t at = 0; at < wanted.size(); ++at) {
              ASSERT_NEAR(values[at], wanted[at], 1e-4) << "element " << at;
            }
          }
          EXPECT_TRUE(values == first) << name_of(isa) << ", " << parts << " parts";
        }
      }
    }
  }
}

// Windows of 3 x 3 keep oneDNN's code for them.
TEST(DepthwiseGradient, IsTakenForOtherWindowsThanOneDnnKnows) {
  dnn::ConvShape shape{.channels = 32, .out_channels = 32, .kernel = {5, 5}, .groups = 32};
  EXPECT_TRUE(takes_depthwise_gradient(shape));
  shape.kernel = {3, 3};
  EXPECT_FALSE(takes_depthwise_gradient(shape));
  shape.dilation = {2, 2};
  EXPECT_TRUE(takes_depthwise_gradient(shape));
  shape.groups = 16;
  EXPECT_FALSE(takes_depthwise_gradient(shape));
  shape.groups = 32;
  shape.out_channels = 64;
  EXPECT_FALSE(takes_depthwise_gradient(shape));
}

}  // namespace
}  // namespace xrun::ops
