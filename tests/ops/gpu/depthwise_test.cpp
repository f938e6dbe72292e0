// Depthwise convolutions of ops/gpu: chains of fused multiply-adds, and weight gradients with the bits of the
// processor.
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

struct Shape {
  int32_t channels, height, width, k_h, k_w, stride_h, stride_w, pad_h, pad_w, dilation_h = 1, dilation_w = 1;

  int32_t out_height() const { return (height + 2 * pad_h - dilation_h * (k_h - 1) - 1) / stride_h + 1; }
  int32_t out_width() const { return (width + 2 * pad_w - dilation_w * (k_w - 1) - 1) / stride_w + 1; }
  size_t image() const { return static_cast<size_t>(height * width * channels); }
  size_t result() const { return static_cast<size_t>(out_height() * out_width() * channels); }
  size_t weights() const { return static_cast<size_t>(channels * k_h * k_w); }
  Attrs attrs() const {
    return {{"k", std::vector<int64_t>{k_h, k_w}},
            {"stride", std::vector<int64_t>{stride_h, stride_w}},
            {"pad", std::vector<int64_t>{pad_h, pad_w}},
            {"dilation", std::vector<int64_t>{dilation_h, dilation_w}},
            {"groups", int64_t{channels}},
            {"height", int64_t{height}},
            {"width_in", int64_t{width}}};
  }
};
constexpr Shape kShapes[] = {{35, 6, 5, 3, 2, 2, 1, 1, 1, 1, 2}, {3, 7, 8, 5, 5, 1, 2, 2, 2}};
constexpr int32_t kImages = 11;

template <typename T>
std::vector<T> numbers(const std::vector<float>& values) {
  if constexpr (std::is_same_v<T, float>) {
    return values;
  } else {
    return rounded(values);
  }
}
template <typename T>
float value(T number) {
  if constexpr (std::is_same_v<T, float>) {
    return number;
  } else {
    return to_float(Bf16{number});
  }
}

struct Operands {
  std::vector<float> x, weight, bias, dy, before;
  explicit Operands(const Shape& s)
      : x(random_floats(kImages * s.image(), 1)),
        weight(random_floats(s.weights(), 2)),
        bias(random_floats(static_cast<size_t>(s.channels), 3)),
        dy(random_floats(kImages * s.result(), 4)),
        before(random_floats(s.weights(), 5)) {}
};

// Calls visit(place in x, place in y, place in the weights) for the cells of each window, in the order of their sums.
template <class Visit>
void for_cells(const Shape& s, const Visit& visit) {
  for (int64_t at = 0; at < kImages * s.out_height() * s.out_width() * s.channels; ++at) {
    const int64_t c = at % s.channels, j = at / s.channels % s.out_width();
    const int64_t line = at / s.channels / s.out_width(), i = line % s.out_height();
    for (int64_t cell = 0; cell < s.k_h * s.k_w; ++cell) {
      const int64_t y = i * s.stride_h - s.pad_h + cell / s.k_w * s.dilation_h;
      const int64_t x = j * s.stride_w - s.pad_w + cell % s.k_w * s.dilation_w;
      if (y >= 0 && y < s.height && x >= 0 && x < s.width) {
        visit(static_cast<size_t>(((line / s.out_height() * s.height + y) * s.width + x) * s.channels + c),
              static_cast<size_t>(at), static_cast<size_t>(c * s.k_h * s.k_w + cell));
      }
    }
  }
}

template <typename T>
void compare(const Shape& s, const std::string& type, Target target) {
  const Operands of(s);
  const auto x = numbers<T>(of.x), weight = numbers<T>(of.weight), dy = numbers<T>(of.dy);
  std::vector<float> y(dy.size()), dx(x.size());
  std::vector<double> exact(dy.size());
  // In the gradient of x, the cells of the window are in ascending order, so positions of y are in descending order.
  std::vector<std::vector<std::array<size_t, 2>>> cells_of_x(x.size());
  for_cells(s, [&](size_t in, size_t out, size_t cell) {
    y[out] = std::fma(value(x[in]), value(weight[cell]), y[out]);
    exact[out] += static_cast<double>(value(x[in])) * static_cast<double>(value(weight[cell]));
    cells_of_x[in].push_back({cell, out});
  });
  double error = 0, size = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    error += (static_cast<double>(y[i]) - exact[i]) * (static_cast<double>(y[i]) - exact[i]);
    size += exact[i] * exact[i];
    y[i] += of.bias[i % static_cast<size_t>(s.channels)];
  }
  EXPECT_LT(std::sqrt(error / size), 1e-6);
  for (size_t i = 0; i < dx.size(); ++i) {
    std::ranges::sort(cells_of_x[i]);
    for (const auto& [cell, out] : cells_of_x[i]) {
      dx[i] = std::fma(value(dy[out]), value(weight[cell]), dx[i]);
    }
  }
  Machine machine(target);
  const uint64_t in = machine.add("x", x), filter = machine.add("weight", weight), grad = machine.add("dy", dy);
  const uint64_t bias = machine.add("bias", of.bias), out = machine.empty<T>("y", y.size());
  const uint64_t in_grad = machine.empty<T>("dx", x.size());
  const auto run = [&](const std::string& kernel, size_t n, const auto&... addresses) {
    const auto count = static_cast<int64_t>(n);
    machine.run_each("depthwise", kernel + type, count, addresses..., count, s.channels, s.height, s.width,
                     s.out_height(), s.out_width(), s.k_h, s.k_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w,
                     s.dilation_h, s.dilation_w);
  };
  run("depthwise", y.size(), in, filter, bias, out);
  EXPECT_TRUE(same_bits(machine.read<T>(out, y.size()), numbers<T>(y))) << type;
  run("depthwise_dx", dx.size(), grad, filter, in_grad);
  EXPECT_TRUE(same_bits(machine.read<T>(in_grad, dx.size()), numbers<T>(dx))) << type;
}

TEST(GpuDepthwise, ElementsAreChainsOfFusedMultiplyAdds) {
  for (const Shape& s : kShapes) {
    compare<float>(s, "_f32", kTargets[0]);
    compare<uint16_t>(s, "_bf16", kTargets[1]);
  }
}

// Launches the weight gradient of images from `first` on.
template <typename T>
void launch_dw(Machine& machine, const Shape& s, uint64_t x, uint64_t dy, uint64_t dw, int64_t first, int64_t images,
               int64_t rows, int64_t stride) {
  const uint32_t blocks = blocks_for(s.channels, 32) * static_cast<uint32_t>(s.k_h * s.k_w);
  machine.run("depthwise", std::string("depthwise_dw") + (sizeof(T) == 2 ? "_bf16" : "_f32"),
              {blocks, stride == 0 ? 1 : blocks_for(images, rows), 1}, {32, 8, 1},
              x + static_cast<uint64_t>(first) * s.image() * sizeof(T),
              dy + static_cast<uint64_t>(first) * s.result() * sizeof(T), dw, images, s.channels, s.height, s.width,
              s.out_height(), s.out_width(), s.k_h, s.k_w, s.stride_h, s.stride_w, s.pad_h, s.pad_w, s.dilation_h,
              s.dilation_w, rows, stride);
}

// Row blocks of 9 images, of which the last one has 2: in one launch, one launch each, and as parts.
template <typename T>
void compare_dw(const Shape& s, DType dtype) {
  constexpr int64_t kRows = 9;
  const Operands of(s);
  const auto x = numbers<T>(of.x), dy = numbers<T>(of.dy);
  std::vector<Raw> expected{raw(of.before)};
  for (int64_t first = 0; first < kImages; first += kRows) {
    const int64_t rows = std::min<int64_t>(kRows, kImages - first);
    const auto part = [&](const std::vector<T>& all, size_t each) {
      const auto begin = all.begin() + first * static_cast<int64_t>(each);
      return raw(std::vector<T>(begin, begin + rows * static_cast<int64_t>(each)));
    };
    run_cpu("conv.dw",
            {.attrs = s.attrs(),
             .rows = rows,
             .inputs = {type_of({kBatch, s.channels, s.height, s.width}, dtype),
                        type_of({kBatch, s.channels, s.out_height(), s.out_width()}, dtype)},
             .outputs = {type_of({s.channels, 1, s.k_h, s.k_w})}},
            {part(x, s.image()), part(dy, s.result())}, expected);
  }
  const auto gradient = values_of<float>(expected[0]);
  const auto elements = static_cast<int64_t>(s.weights());
  for (const ptx::Order order : ptx::kOrders) {
    Machine machine(kTargets[1], order);
    const uint64_t in = machine.add("x", x), grad = machine.add("dy", dy), dw = machine.add("dw", of.before);
    if (order == ptx::Order::kFair || order == ptx::Order::kGreedy) {
      launch_dw<T>(machine, s, in, grad, dw, 0, kImages, kRows, 0);
    } else if (order == ptx::Order::kReversed || order == ptx::Order::kThreadLast) {
      launch_dw<T>(machine, s, in, grad, dw, 0, kRows, kRows, 0);
      launch_dw<T>(machine, s, in, grad, dw, kRows, kImages - kRows, kRows, 0);
    } else {
      const uint64_t parts = machine.empty<float>("parts", 2 * s.weights());
      launch_dw<T>(machine, s, in, grad, parts, 0, kImages, kRows, elements);
      machine.run_each("column_sums", "add_parts_f32", elements, parts, dw, elements, int64_t{2});
    }
    EXPECT_TRUE(same_bits(machine.read<float>(dw, s.weights()), gradient)) << static_cast<int>(order);
  }
}

TEST(GpuDepthwise, WeightGradientsHaveTheBitsOfTheProcessorWhateverTheGroupingOfRowBlocks) {
  compare_dw<float>(kShapes[1], DType::kF32);
  compare_dw<uint16_t>(kShapes[0], DType::kBF16);
}

}  // namespace
}  // namespace xrun::ops::gpu
