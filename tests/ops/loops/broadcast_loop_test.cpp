// Element-wise functions of operands that broadcast in every way, compared with a loop over the elements: whole calls
// and parts, compiled and interpreted, and results so large that stores bypass the caches.
#include "ops/loops/broadcast_loop.h"

#include <gtest/gtest.h>
#include <random>

#include "ops/op.h"
#include "tests/ops/op_runner.h"

namespace xrun::ops {
namespace {

struct Operand {
  TensorType type;
  Values values;  // values after rounding to the type
  Memory memory;
};

Operand make_operand(const TensorType& type, int64_t rows, uint64_t seed) {
  Operand operand{type, {}, Memory(type.bytes(rows, rows))};
  const size_t n = memory_order(type, rows).size();
  write_values(type, rows, random_values(n, -2, 2, seed), operand.memory.data());
  operand.values = read_values(type, rows, operand.memory.data());
  return operand;
}

// Returns the position in an operand that element `i` of the result reads, both in logical order.
size_t place_of(const std::vector<int64_t>& result, std::vector<int64_t> operand, int64_t i) {
  operand.insert(operand.begin(), result.size() - operand.size(), 1);
  int64_t place = 0;
  int64_t step = 1;
  for (size_t d = result.size(); d-- > 0;) {
    place += operand[d] == 1 ? 0 : i % result[d] * step;
    step *= operand[d];
    i /= result[d];
  }
  return static_cast<size_t>(place);
}

struct Shapes {
  int64_t rows = 1;
  std::vector<TensorType> inputs;  // three inputs; the first has the shape of the result
};

void expect_products(const Shapes& shapes, uint64_t seed, const std::vector<int64_t>& all_parts = {1, 3, 7}) {
  const TensorType& out = shapes.inputs[0];
  std::vector<Operand> operands;
  KernelSpec spec{.inputs = shapes.inputs,
                  .outputs = {out},
                  .attrs = Attrs{{"y", std::string("x0 * x1 + x2")}},
                  .rows = shapes.rows,
                  .isa = detect_isa()};
  std::vector<TensorView> views;
  std::string named;
  for (size_t k = 0; k < shapes.inputs.size(); ++k) {
    operands.push_back(make_operand(shapes.inputs[k], shapes.rows, seed * 8 + k));
    views.push_back({operands.back().memory.data()});
    named += to_text(shapes.inputs[k]) + " ";
  }
  const std::vector<int64_t> dims = block_dims(out, shapes.rows);
  const auto at = [&](size_t k, int64_t i) {
    return static_cast<float>(operands[k].values[place_of(dims, block_dims(shapes.inputs[k], shapes.rows), i)]);
  };
  Values wanted(operands[0].values.size());
  for (int64_t i = 0; i < std::ssize(wanted); ++i) {
    const float y = at(0, i) * at(1, i) + at(2, i);
    wanted[static_cast<size_t>(i)] = static_cast<double>(out.dtype == DType::kBF16  ? to_float(to_bf16(y))
                                                         : out.dtype == DType::kF16 ? to_float(to_f16(y))
                                                                                    : y);
  }
  for (const bool compile : {false, true}) {
    spec.compile = compile;
    const auto kernel = std::move(find_op("map")->cpu(spec)).value();
    for (const int64_t parts : all_parts) {
      const int64_t cut = std::min(parts, kernel->parts());
      const Memory result(out.bytes(shapes.rows, shapes.rows));
      const std::vector<TensorView> results{{result.data()}};
      for (int64_t part = 0; part < cut; ++part) {
        const Memory scratch(kernel->scratch_bytes());
        std::memset(scratch.data(), 0xFF, static_cast<size_t>(kernel->scratch_bytes()));
        ASSERT_TRUE(
            kernel->run({.inputs = views, .outputs = results, .scratch = scratch.data(), .part = part, .parts = cut})
                .ok());
      }
      EXPECT_TRUE(read_values(out, shapes.rows, result.data()) == wanted)
          << named << shapes.rows << " rows, " << cut << " parts" << (compile ? ", compiled" : "") << ", seed " << seed;
    }
  }
}

TEST(BroadcastLoop, ResultsForRandomShapesEqualAnElementwiseLoopBitForBit) {
  const uint64_t seed = std::random_device()();
  std::mt19937_64 random(seed);
  const auto pick = [&](std::initializer_list<int64_t> list) {
    return *(list.begin() + static_cast<std::ptrdiff_t>(random() % list.size()));
  };
  for (int i = 0; i < 150; ++i) {
    Shapes shapes{.rows = pick({1, 2, 5, 16}), .inputs = {}};
    const DType dtypes[] = {DType::kF32, DType::kBF16, DType::kF16};
    TensorType out{.dtype = dtypes[pick({0, 1, 2})], .dims = {kBatch}};
    const int64_t rank = pick({2, 3, 4});
    for (int64_t d = 1; d < rank; ++d) {
      out.dims.push_back(d == (rank == 4 ? 1 : rank - 1) ? pick({1, 2, 10, 16, 17, 24, 40, 128, 130, 200, 320, 600})
                                                         : pick({1, 2, 3, 7}));
    }
    shapes.inputs.push_back(out);
    for (int k = 1; k < 3; ++k) {
      TensorType other = out;
      if (pick({0, 1}) == 0) {  // the operand becomes a parameter that has the last dimensions
        other.dtype = DType::kF32;
        other.dims.erase(other.dims.begin(), other.dims.begin() + pick({1, rank - 1}));
      }
      for (int64_t& dim : other.dims) {
        dim = dim != kBatch && pick({0, 1, 1}) == 0 ? 1 : dim;
      }
      shapes.inputs.push_back(other);
    }
    expect_products(shapes, seed + static_cast<uint64_t>(i));
    if (HasFailure()) {
      return;
    }
  }
}

// The shapes of batch norm: a vector with one element per channel and a single number, and a number for each channel of
// each sample.
TEST(BroadcastLoop, VectorsOfChannelsHaveTheBitsOfALoopInLargeResults) {
  const auto large = [](int64_t channels) {
    return TensorType{.dtype = DType::kF32, .dims = {kBatch, channels, 64, 64}};
  };
  const auto rows = [&](int64_t channels) { return (kStreamed + (1 << 20)) / large(channels).bytes(1, 1) + 1; };
  const TensorType number{.dtype = DType::kF32, .dims = {1}};
  expect_products({rows(24), {large(24), {.dtype = DType::kF32, .dims = {24, 1, 1}}, number}}, 1, {3});
  expect_products({rows(512), {large(512), {.dtype = DType::kF32, .dims = {512, 1, 1}}, number}}, 2, {3});
  expect_products({rows(96), {large(96), large(96), {.dtype = DType::kF32, .dims = {kBatch, 96, 1, 1}}}}, 3, {3});
}

}  // namespace
}  // namespace xrun::ops
