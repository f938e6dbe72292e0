// Kernels for functions of broadcast operands have the bits of the CPU's operator `map`, for any number of rows.
#include "graph/types/scalar_expr.h"
#include "ops/loops/gpu_map.h"
#include "ops/op.h"
#include "tests/gpu_loops/gpu_runs.h"

namespace xrun::ops {
namespace {

class GpuMaps : public GpuLoops {};

TensorType type_of(std::vector<int64_t> dims, DType dtype = DType::kF32, Layout layout = Layout::kRowMajor) {
  TensorType type{.dtype = dtype, .dims = std::move(dims)};
  type.layout = layout;
  return type;
}

void compare(const std::vector<TensorType>& inputs, int64_t rows, const std::string& text, std::mt19937& random) {
  std::string named = text + " of";
  std::vector<Bits> operands;
  std::vector<TensorView> views;
  operands.reserve(inputs.size());
  for (const TensorType& input : inputs) {
    named += " " + to_text(input);
    std::vector<float> numbers = random_numbers(random, static_cast<size_t>(input.elements(rows, rows)));
    if (input.dtype == DType::kF32) {
      operands.push_back(bits_of_all(numbers));
    } else {
      std::vector<Bf16> halves;
      std::ranges::transform(numbers, std::back_inserter(halves), to_bf16);
      operands.push_back(bits_of_all(halves));
    }
  }
  SCOPED_TRACE(named + ", " + std::to_string(rows) + " rows");
  const TensorType& out = inputs[0];
  const std::vector<size_t> sizes{static_cast<size_t>(out.bytes(rows, rows))};
  const auto loop = gpu_map(inputs, {&out, 1}, *parse_scalar_expr(text), 1000);
  ASSERT_TRUE(loop.ok()) << loop.error().message;
  const auto run = run_kernel(*loop, operands, sizes, out.elements(rows, rows));
  ASSERT_TRUE(run.has_value());

  KernelSpec spec{.inputs = inputs, .outputs = {out}, .attrs = Attrs{{"y", text}}, .rows = rows, .isa = detect_isa()};
  const auto kernel = std::move(find_op("map")->cpu(spec)).value();
  for (Bits& operand : operands) {
    views.push_back({operand.data()});
  }
  Bits wanted(sizes[0]);
  const std::vector<TensorView> results{{wanted.data()}};
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> scratch(static_cast<size_t>(kernel->scratch_bytes()) / sizeof(Line) + 1);
  const ComputeModes modes;
  ASSERT_TRUE(kernel->run({.inputs = views, .outputs = results, .scratch = scratch[0].bytes}).ok());
  EXPECT_EQ(first_difference(out.dtype, run->results[0], wanted), -1);
}

TEST_F(GpuMaps, HaveTheBitsOfTheOperatorForBroadcastOperands) {
  std::mt19937 random(31);
  const std::string text = "x0 * x1 + x2";
  const auto nhwc = Layout::kChannelsLast;
  for (const int64_t rows : {1, 3}) {
    compare({type_of({kBatch, 12}), type_of({12}), type_of({kBatch, 12})}, rows, text, random);
    compare({type_of({kBatch, 12}), type_of({kBatch, 1}), type_of({1})}, rows, text, random);
    compare({type_of({kBatch, 5, 7}), type_of({7}), type_of({kBatch, 5, 1})}, rows, text, random);
    compare({type_of({kBatch, 5, 7}), type_of({5, 1}), type_of({kBatch, 1, 7})}, rows, text, random);
    compare({type_of({kBatch, 6, 3, 4}), type_of({6, 1, 1}), type_of({kBatch, 6, 1, 1})}, rows, text, random);
    compare({type_of({kBatch, 6, 3, 4}, DType::kF32, nhwc), type_of({6, 1, 1}), type_of({kBatch, 6, 1, 1})}, rows, text,
            random);
    compare({type_of({kBatch, 6, 3, 4}, DType::kF32, nhwc), type_of({kBatch, 6, 3, 4}), type_of({kBatch, 1, 3, 4})},
            rows, text, random);
    compare({type_of({kBatch, 40}, DType::kBF16), type_of({40}), type_of({kBatch, 1}, DType::kBF16)}, rows, text,
            random);
    compare({type_of({kBatch, 5, 1}), type_of({1}), type_of({5, 1})}, rows, text, random);
  }
}

TEST_F(GpuMaps, HaveOneKernelForAnyNumberOfRows) {
  const std::vector<TensorType> inputs{type_of({kBatch, 5, 7}), type_of({7}), type_of({kBatch, 5, 1})};
  const auto of = [&](int64_t rows) {
    return describe(*gpu_map(inputs, {inputs.data(), 1}, *parse_scalar_expr("x0 * x1 + x2"), rows), GpuTarget::kSm80);
  };
  EXPECT_EQ(of(1), "sm_80 f32 f32[0 1] f32[1 0] -> f32 over 10 7: x0 * x1 + x2");
  EXPECT_EQ(of(61'356'675), of(1));
  EXPECT_NE(of(61'356'676), of(1)) << "2^31 elements need indices of 64 bits";
}

TEST_F(GpuMaps, RefuseOperandsWithValuesForRowBlocks) {
  const std::vector<TensorType> inputs{type_of({kBatch, 4}), type_of({kPerBlock, 4})};
  const auto loop = gpu_map(inputs, {inputs.data(), 1}, *parse_scalar_expr("x0 * x1"), 8);
  ASSERT_FALSE(loop.ok());
  EXPECT_EQ(loop.error().code, "XG0824");
  EXPECT_NE(loop.error().message.find("row blocks"), std::string::npos);
}

}  // namespace
}  // namespace xrun::ops
