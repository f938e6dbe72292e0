// Pooling of images, transposes, copies of columns and rows of tables have the bits of the processor.
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kImages = 2;
constexpr int32_t kChannels = 3, kHeight = 6, kWidth = 5;

Raw numbers(DType dtype, const std::vector<float>& values) {
  return dtype == DType::kF32 ? raw(values) : raw(rounded(values));
}
::testing::AssertionResult same(DType dtype, const Raw& gpu, const Raw& cpu) {
  return dtype == DType::kF32 ? same_bits(values_of<float>(gpu), values_of<float>(cpu))
                              : same_bits(values_of<uint16_t>(gpu), values_of<uint16_t>(cpu));
}

struct Window {
  int32_t k_h, k_w, stride_h, stride_w, pad_h, pad_w;
  int32_t out_height() const { return (kHeight + 2 * pad_h - k_h) / stride_h + 1; }
  int32_t out_width() const { return (kWidth + 2 * pad_w - k_w) / stride_w + 1; }
  Attrs attrs() const {
    return {{"k", std::vector<int64_t>{k_h, k_w}},
            {"stride", std::vector<int64_t>{stride_h, stride_w}},
            {"pad", std::vector<int64_t>{pad_h, pad_w}},
            {"height", int64_t{kHeight}},
            {"width_in", int64_t{kWidth}}};
  }
};

void compare(const Window& w, DType dtype, bool max) {
  const TensorType image = type_of({kBatch, kChannels, kHeight, kWidth}, dtype);
  const TensorType pooled = type_of({kBatch, kChannels, w.out_height(), w.out_width()}, dtype);
  const auto elements = static_cast<size_t>(kImages * kChannels * kHeight * kWidth);
  const auto results = static_cast<size_t>(kImages * kChannels * w.out_height() * w.out_width());
  auto values = random_floats(elements, 1, -1, 1);
  values[3] = values[3 + kChannels];  // equal cells
  values[40] = NAN;
  const Raw x = numbers(dtype, values), dy = numbers(dtype, random_floats(results, 2));
  const std::string op = max ? "max_pool" : "avg_pool";
  std::vector<Raw> y{Raw(dy.size())}, dx{Raw(x.size())};
  run_cpu(op, {.attrs = w.attrs(), .rows = kImages, .inputs = {image}, .outputs = {pooled}}, {x}, y);
  CpuCall back{.attrs = w.attrs(), .rows = kImages, .inputs = {pooled}, .outputs = {image}};
  std::vector<Raw> given{dy};
  if (max) {
    back.inputs = {image, pooled};
    given = {x, dy};
  }
  run_cpu(op + ".grad", back, given, dx);
  const std::string type = dtype == DType::kF32 ? "_f32" : "_bf16";
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t in = machine.add("x", x), grad = machine.add("dy", dy);
    const uint64_t out = machine.empty<std::byte>("y", dy.size()), in_grad = machine.empty<std::byte>("dx", x.size());
    const auto count = static_cast<int64_t>(results), cells = static_cast<int64_t>(elements);
    machine.run_each("pool", op + type, count, in, out, count, kChannels, kHeight, kWidth, w.out_height(),
                     w.out_width(), w.k_h, w.k_w, w.stride_h, w.stride_w, w.pad_h, w.pad_w);
    EXPECT_TRUE(same(dtype, machine.read<std::byte>(out, dy.size()), y[0])) << op << type;
    if (max) {
      machine.run_each("pool", op + "_grad" + type, cells, in, grad, in_grad, cells, kChannels, kHeight, kWidth,
                       w.out_height(), w.out_width(), w.k_h, w.k_w, w.stride_h, w.stride_w, w.pad_h, w.pad_w);
    } else {
      machine.run_each("pool", op + "_grad" + type, cells, grad, in_grad, cells, kChannels, kHeight, kWidth,
                       w.out_height(), w.out_width(), w.k_h, w.k_w, w.stride_h, w.stride_w, w.pad_h, w.pad_w);
    }
    EXPECT_TRUE(same(dtype, machine.read<std::byte>(in_grad, x.size()), dx[0])) << op << ".grad" << type;
  }
}

TEST(GpuPool, PoolingHasTheBitsOfTheProcessor) {
  for (const Window& window : {Window{2, 2, 2, 2, 0, 0}, Window{3, 2, 1, 2, 1, 0}, Window{3, 3, 2, 1, 1, 1}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      compare(window, dtype, true);
      compare(window, dtype, false);
    }
  }
}

TEST(GpuPool, TheMeanOfAllPositionsHasTheBitsOfTheProcessor) {
  constexpr int64_t kPositions = 9 * 8;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TensorType image = type_of({kBatch, kChannels, 9, 8}, dtype), mean = type_of({kBatch, kChannels}, dtype);
    const Raw x = numbers(dtype, random_floats(kImages * kChannels * kPositions, 3));
    const Raw dy = numbers(dtype, random_floats(kImages * kChannels, 4));
    std::vector<Raw> y{Raw(dy.size())}, dx{Raw(x.size())};
    run_cpu("global_avg_pool", {.attrs = {}, .rows = kImages, .inputs = {image}, .outputs = {mean}}, {x}, y);
    run_cpu("global_avg_pool.grad", {.attrs = {}, .rows = kImages, .inputs = {mean}, .outputs = {image}}, {dy}, dx);
    const std::string type = dtype == DType::kF32 ? "_f32" : "_bf16";
    for (const Target target : kTargets) {
      Machine machine(target, ptx::Order::kWarpLast);
      const uint64_t out = machine.empty<std::byte>("y", dy.size()), back = machine.empty<std::byte>("dx", x.size());
      machine.run("pool", "global_avg_pool" + type, {1, kImages, 1}, {32, 8, 1}, machine.add("x", x), out, kPositions,
                  int64_t{kChannels});
      EXPECT_TRUE(same(dtype, machine.read<std::byte>(out, dy.size()), y[0]));
      const int64_t count = kImages * kChannels * kPositions;
      machine.run_each("pool", "global_avg_pool_grad" + type, count, machine.add("dy", dy), back, count, kPositions,
                       int64_t{kChannels});
      EXPECT_TRUE(same(dtype, machine.read<std::byte>(back, x.size()), dx[0]));
    }
  }
}

// ---- copies

TEST(GpuLayout, MatricesAreTransposed) {
  constexpr int64_t kMatrices = 2, kRows = 37, kColumns = 70;
  std::vector<uint32_t> words(kMatrices * kRows * kColumns), expected(words.size());
  std::vector<uint16_t> halves, expected_halves(words.size());
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<uint32_t>(i * 2654435761U);
    halves.push_back(static_cast<uint16_t>(words[i] >> 16));
  }
  for (int64_t m = 0; m < kMatrices; ++m) {
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kColumns; ++c) {
        const auto from = static_cast<size_t>((m * kRows + r) * kColumns + c);
        const auto to = static_cast<size_t>((m * kColumns + c) * kRows + r);
        expected[to] = words[from];
        expected_halves[to] = halves[from];
      }
    }
  }
  for (const ptx::Order order : ptx::kOrders) {
    Machine machine(kTargets[order == ptx::Order::kFair ? 0 : 1], order);
    const uint64_t y = machine.empty<uint32_t>("y", words.size()), narrow = machine.empty<uint16_t>("n", words.size());
    machine.run("layout", "transpose_32", {3, 2, kMatrices}, {32, 8, 1}, machine.add("x", words), y, kRows, kColumns);
    machine.run("layout", "transpose_16", {3, 2, kMatrices}, {32, 8, 1}, machine.add("h", halves), narrow, kRows,
                kColumns);
    EXPECT_EQ(machine.read<uint32_t>(y, words.size()), expected);
    EXPECT_EQ(machine.read<uint16_t>(narrow, words.size()), expected_halves);
  }
}

TEST(GpuLayout, ColumnsAreCopiedBetweenRowsOfDifferentStrides) {
  std::vector<uint32_t> from(3 * 10), to(3 * 7, 99), expected = to;
  for (size_t i = 0; i < from.size(); ++i) {
    from[i] = static_cast<uint32_t>(i);
  }
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 4; ++c) {
      expected[r * 7 + 2 + c] = from[r * 10 + 5 + c];
    }
  }
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t y = machine.add("to", to);
    machine.run_each("layout", "copy_columns_32", 12, machine.add("from", from) + 20, y + 8, int64_t{3}, int64_t{4},
                     int64_t{10}, int64_t{7});
    EXPECT_EQ(machine.read<uint32_t>(y, to.size()), expected);
  }
}

TEST(GpuLayout, RowsOfATableAndTheirGradientHaveTheBitsOfTheProcessor) {
  constexpr int64_t kNumbers = 9, kTableRows = 4, kColumns = 11;
  const std::vector<int32_t> numbers_of_rows{0, 3, 3, 1, 3, 0, 2, 3, 3};
  const TensorType index = type_of({kBatch}, DType::kI32), row = type_of({kBatch, kColumns});
  const TensorType table = type_of({kTableRows, kColumns});
  const Raw weight = raw(random_floats(kTableRows * kColumns, 5)), dy = raw(random_floats(kNumbers * kColumns, 6));
  std::vector<Raw> y{Raw(dy.size())}, sums{weight};
  run_cpu("embed", {.attrs = {}, .rows = kNumbers, .inputs = {index, table}, .outputs = {row}},
          {raw(numbers_of_rows), weight}, y);
  run_cpu("embed.grad", {.attrs = {}, .rows = kNumbers, .inputs = {index, row}, .outputs = {table}},
          {raw(numbers_of_rows), dy}, sums);
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t numbers_at = machine.add("numbers", numbers_of_rows), kept = machine.add("table", weight);
    const uint64_t out = machine.empty<std::byte>("y", dy.size());
    const uint64_t flags = machine.add("flags", std::vector<uint32_t>{1});
    machine.run_each("layout", "gather_rows_f32", kNumbers * kColumns, numbers_at, kept, out, kNumbers, kTableRows,
                     kColumns, flags);
    EXPECT_EQ(machine.read<std::byte>(out, dy.size()), y[0]);
    EXPECT_EQ(machine.read<uint32_t>(flags, 1)[0], 1u);
    machine.run_each("layout", "add_rows_f32", kColumns, numbers_at, machine.add("dy", dy), kept, kNumbers, kTableRows,
                     kColumns);
    EXPECT_TRUE(same(DType::kF32, machine.read<std::byte>(kept, weight.size()), sums[0]));
    auto damaged = numbers_of_rows;
    damaged[4] = kTableRows;
    machine.run_each("layout", "gather_rows_f32", kNumbers * kColumns, machine.add("damaged", damaged), kept, out,
                     kNumbers, kTableRows, kColumns, flags);
    EXPECT_EQ(machine.read<uint32_t>(flags, 1)[0], 3u);
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
