// Weight gradients of depthwise convolutions with random windows, strides, paddings and numbers of channels, compared
// with the formula. Every instruction set and every division into parts must give the same bits.
#include "ops/conv/depthwise_gradient.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ops/catalog.h"
#include "ops/dnn/window.h"
#include "tests/ops/op_runner.h"
#include "tests/support/isas.h"
#include "tests/support/naive_ops.h"

namespace xrun::ops {
namespace {

// Returns the gradient in f64, [C, 1, k.h, k.w].
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

dnn::ConvShape shape_of(const naive::Image& image, const naive::Window& w) {
  return {.rows = image.n,
          .channels = image.c,
          .height = image.h,
          .width = image.w,
          .out_channels = image.c,
          .kernel = extents(w.k),
          .stride = extents(w.stride),
          .pad = extents(w.pad),
          .dilation = extents(w.dilation),
          .groups = image.c};
}

Memory random_memory(const TensorType& type, int64_t rows, uint64_t seed) {
  Memory memory(type.bytes(rows, rows));
  write_values(type, rows, random_values(static_cast<size_t>(type.row_elements() * rows), -1, 1, seed), memory.data());
  return memory;
}

constexpr double kBefore = 0.5;  // initial value of the gradient's elements, to which a call adds

// Runs the kernel part by part and returns its result.
Values result_of(const Kernel& kernel, const Memory& x, const Memory& dy, const TensorType& weight, int64_t parts) {
  const Memory dw(weight.bytes(1, 1));
  std::fill_n(reinterpret_cast<float*>(dw.data()), weight.row_elements(), static_cast<float>(kBefore));
  const TensorView inputs[] = {{x.data()}, {dy.data()}};
  const TensorView outputs[] = {{dw.data()}};
  for (int64_t part = 0; part < parts; ++part) {
    const Memory scratch(kernel.scratch_bytes());
    std::memset(scratch.data(), 0xFF, static_cast<size_t>(kernel.scratch_bytes()));
    const Status done =
        kernel.run({.inputs = inputs, .outputs = outputs, .scratch = scratch.data(), .part = part, .parts = parts});
    EXPECT_TRUE(done.ok());
  }
  return read_values(weight, 1, dw.data());
}

void compare(const naive::Image& image, const naive::Window& w, DType dtype, uint64_t seed) {
  const dnn::ConvShape shape = shape_of(image, w);
  const TensorType in{.dtype = dtype, .dims = {kBatch, image.c, image.h, image.w}, .layout = Layout::kChannelsLast};
  TensorType out = in;
  out.dims = {kBatch, image.c, shape.out_height(), shape.out_width()};
  const TensorType weight{.dtype = DType::kF32, .dims = {image.c, 1, w.k.h, w.k.w}};
  const Memory x = random_memory(in, image.n, seed);
  const Memory dy = random_memory(out, image.n, seed + 1);
  const Values wanted = by_formula(read_values(in, image.n, x.data()), image, read_values(out, image.n, dy.data()), w);
  Values first;
  for (const Isa isa : all_isas()) {
    const KernelSpec spec{.inputs = {in, out}, .outputs = {weight}, .rows = image.n, .isa = isa};
    const std::unique_ptr<Kernel> kernel = make_depthwise_gradient(spec, shape).value();
    for (const int64_t parts : {int64_t{1}, kernel->parts()}) {
      const Values values = result_of(*kernel, x, dy, weight, parts);
      for (size_t at = 0; first.empty() && at < wanted.size(); ++at) {
        ASSERT_NEAR(values[at], kBefore + wanted[at], 1e-4) << "element " << at;
      }
      first = first.empty() ? values : first;
      EXPECT_TRUE(values == first) << name_of(isa) << ", " << parts << " parts";
    }
  }
}

// Images may be larger or smaller than windows, paddings and strides.
TEST(DepthwiseGradient, AgreesWithTheFormulaForRandomConvolutions) {
  constexpr uint64_t kSeed = 20261127;
  const RandomStream stream(kSeed, 1);
  uint64_t draws = 0;
  const auto below = [&](int64_t n) { return static_cast<int64_t>(stream.below(draws++, static_cast<uint64_t>(n))); };
  const auto pair = [&](int64_t low, int64_t n) {
    return below(2) == 0 ? naive::Pair(low + below(n)) : naive::Pair(low + below(n), low + below(n));
  };
  int large = 0;
  int small = 0;
  for (int i = 0; i < 200; ++i) {
    const naive::Window w{.k = pair(1, 8), .stride = pair(1, 3), .pad = pair(0, 5), .dilation = pair(1, 2)};
    const bool is_small = below(2) == 0;
    const naive::Pair size = is_small ? pair(1, 6) : pair(14, 6);
    const naive::Image image{1 + below(3), 2 + below(40), size.h, size.w};
    const dnn::ConvShape shape = shape_of(image, w);
    if (shape.height + 2 * shape.pad.h < shape.reach().h || shape.width + 2 * shape.pad.w < shape.reach().w) {
      continue;  // the shapes do not form a convolution
    }
    ++(is_small ? small : large);
    SCOPED_TRACE(fmt::format("seed {}, convolution {}: {} x {} x {} x {}, k {} x {}, stride {} x {}, pad {} x {}",
                             kSeed, i, image.n, image.c, image.h, image.w, w.k.h, w.k.w, w.stride.h, w.stride.w,
                             w.pad.h, w.pad.w));
    compare(image, w, DType::kF32, draws++);
    compare(image, w, DType::kBF16, draws++);
  }
  EXPECT_GT(large, 60);
  EXPECT_GT(small, 30);
}

// oneDNN's special code is used for windows of 3 x 3.
TEST(DepthwiseGradient, IsChosenForWindowsWithoutSpecialCodeInOneDnn) {
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
