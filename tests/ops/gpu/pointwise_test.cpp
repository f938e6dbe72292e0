// Functions of one tensor, their gradients, arithmetic and conversions have the bits of the processor.
#include "graph/base/philox.h"
#include "graph/base/random.h"
#include "graph/settings/head_def.h"
#include "ops/head/row_format.h"
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kCount = 300;

// Returns numbers of all sizes and special ones. Subnormal numbers and NaN are tested where their bits are defined.
std::vector<float> operands(uint64_t seed) {
  std::vector<float> values = random_floats(kCount, seed, -20, 7);
  const float special[] = {0.0F, -0.0F, INFINITY, -INFINITY, NAN, 1.0F, -1.0F, 0.625F, 88.72283F, -87.33654F, 2.0F};
  std::ranges::copy(special, values.begin() + 5);
  return values;
}

// Compares an element-wise operator on the GPU and the processor, in f32 and in bf16.
void compare(const std::string& op, const std::string& module, const std::string& kernel,
             const std::vector<std::vector<float>>& inputs) {
  for (const Target target : kTargets) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const TensorType type = type_of({kBatch, kCount}, dtype);
      CpuCall call{.inputs = {inputs.size(), type}, .outputs = {type}};
      Machine machine(target);
      std::vector<Raw> given;
      std::vector<uint64_t> addresses;
      for (const auto& values : inputs) {
        given.push_back(dtype == DType::kF32 ? raw(values) : raw(rounded(values)));
        addresses.push_back(machine.add("x", given.back()));
      }
      std::vector<Raw> result{Raw(given[0].size())};
      run_cpu(op, call, given, result);
      const uint64_t y = machine.empty<std::byte>("y", result[0].size());
      const std::string name = kernel + (dtype == DType::kF32 ? "_f32" : "_bf16");
      if (inputs.size() == 1) {
        machine.run_each(module, name, kCount, addresses[0], y, kCount);
      } else {
        machine.run_each(module, name, kCount, addresses[0], addresses[1], y, kCount);
      }
      const Raw computed = machine.read<std::byte>(y, result[0].size());
      if (dtype == DType::kF32) {
        EXPECT_TRUE(same_bits(values_of<float>(computed), values_of<float>(result[0]))) << name;
      } else {
        EXPECT_TRUE(same_bits(values_of<uint16_t>(computed), values_of<uint16_t>(result[0]))) << name;
      }
    }
  }
}

TEST(GpuPointwise, FunctionsAndGradientsHaveTheBitsOfTheProcessor) {
  for (const std::string op : {"relu", "gelu", "silu", "sigmoid", "tanh", "exp", "log", "sqrt", "erf"}) {
    compare(op, "pointwise", op, {operands(1)});
    compare(op + ".grad", "pointwise_grad", op + "_grad", {operands(2), operands(3)});
  }
}

TEST(GpuPointwise, ArithmeticHasTheBitsOfTheProcessor) {
  for (const std::string op : {"add", "sub", "mul"}) {
    compare(op, "arithmetic", op, {operands(4), operands(5)});
  }
}

TEST(GpuPointwise, ABiasIsAddedToEachChannel) {
  constexpr int64_t kRows = 7, kChannels = 19;
  const auto x = random_floats(kRows * kChannels, 6);
  const auto bias = random_floats(kChannels, 7);
  std::vector<float> expected;
  for (size_t i = 0; i < x.size(); ++i) {
    expected.push_back(x[i] + bias[i % kChannels]);
  }
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t y = machine.empty<float>("y", x.size());
    machine.run_each("arithmetic", "add_bias_f32", kRows * kChannels, machine.add("x", x), machine.add("bias", bias), y,
                     kRows * kChannels, static_cast<int32_t>(kChannels));
    EXPECT_TRUE(same_bits(machine.read<float>(y, x.size()), expected));
    const uint64_t narrow = machine.empty<uint16_t>("narrow", x.size());
    machine.run_each("arithmetic", "scale_shift_bf16", kRows * kChannels, machine.add("x", rounded(x)), narrow,
                     kRows * kChannels, 0.3F, -1.7F);
    std::vector<uint16_t> scaled;
    for (const uint16_t bits : rounded(x)) {
      scaled.push_back(to_bf16(to_float(Bf16{bits}) * 0.3F + -1.7F).bits);
    }
    EXPECT_TRUE(same_bits(machine.read<uint16_t>(narrow, x.size()), scaled));
  }
}

TEST(GpuPointwise, ConversionsRoundToTheNearestWithTiesToEven) {
  auto values = operands(8);
  values[40] = std::bit_cast<float>(0x3F808000U);  // ties
  values[41] = std::bit_cast<float>(0x3F818000U);
  values[42] = 0x1.fffffep127F;  // rounds to infinity
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t narrow = machine.empty<uint16_t>("narrow", kCount);
    const uint64_t wide = machine.empty<float>("wide", kCount);
    machine.run_each("cast", "narrow_bf16", kCount, machine.add("values", values), narrow, kCount);
    machine.run_each("cast", "widen_bf16", kCount, narrow, wide, kCount);
    EXPECT_TRUE(same_bits(machine.read<uint16_t>(narrow, kCount), rounded(values)));
    std::vector<float> expected;
    for (const uint16_t bits : rounded(values)) {
      expected.push_back(to_float(Bf16{bits}));
    }
    EXPECT_TRUE(same_bits(machine.read<float>(wide, kCount), expected));
  }
}

TEST(GpuPointwise, RowsAreRoundedWithTheDrawsOfTheProcessor) {
  constexpr int64_t kRows = 3, kColumns = 45;
  const auto values = random_floats(kRows * kColumns, 9);
  std::vector<StreamKey> keys;
  std::vector<uint16_t> expected(values.size());
  for (uint64_t row = 0; row < kRows; ++row) {
    keys.push_back(stream_key(11, 5, row, 2));
    const float scale =
        store_row(RowFormat::kBf16, values.data() + row * kColumns, kColumns, RandomStream(11, 5, row, 2),
                  reinterpret_cast<std::byte*>(expected.data() + row * kColumns));
    EXPECT_EQ(scale, 1.0F);
  }
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t to = machine.empty<uint16_t>("to", values.size());
    machine.run_each("cast", "round_rows_bf16", kRows * kColumns, machine.add("from", values),
                     machine.add("keys", keys), to, kRows, kColumns);
    EXPECT_TRUE(same_bits(machine.read<uint16_t>(to, values.size()), expected));
  }
}

TEST(GpuPointwise, DropoutHasTheDrawsOfTheProcessor) {
  constexpr int64_t kRows = 5, kColumns = 30;
  const double p = 0.3;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TensorType type = type_of({kBatch, kColumns}, dtype);
    const CpuCall call{
        .attrs = Attrs{{"p", p}}, .rows = kRows, .inputs = {type}, .outputs = {type}, .path = "block.drop"};
    const auto x = random_floats(kRows * kColumns, 10);
    const std::vector<Raw> given{dtype == DType::kF32 ? raw(x) : raw(rounded(x))};
    std::vector<Raw> result{Raw(given[0].size())};
    run_cpu("dropout", call, given, result);
    for (const Target target : kTargets) {
      Machine machine(target);
      const uint64_t y = machine.empty<std::byte>("y", result[0].size());
      machine.run_each("dropout", dtype == DType::kF32 ? "dropout_f32" : "dropout_bf16", kRows * 8,
                       machine.add("x", given[0]), y, kRows, kColumns, kCallSeed, static_cast<uint64_t>(kCallStep),
                       static_cast<uint64_t>(kCallRow), stable_hash("block.drop"),
                       static_cast<uint32_t>(std::lround(p * 0x1.0p31) * 2), static_cast<float>(1 / (1 - p)));
      EXPECT_EQ(machine.read<std::byte>(y, result[0].size()), result[0]) << "seed " << kSeed;
    }
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
