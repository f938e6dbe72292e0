// Kernels that nvcc and LLVM wrote: sums of rows with shuffles, barriers, atomics and a last block; a scale; a fused
// add.
#include <cmath>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

constexpr uint32_t kRows = 3;
constexpr uint32_t kWidth = 100;
constexpr uint32_t kThreads = 96;

struct Sums {
  Execution execution;
  std::vector<float> sums;
};

std::vector<float> random_values(size_t count) {
  std::mt19937_64 random(kSeed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = std::ldexp(static_cast<float>(random() >> 40), -20) - 8;
  }
  return values;
}

Sums run(const std::string& text, Order order, uint64_t seed, size_t missing = 0) {
  const auto module = module_of(text);
  Sums done;
  if (module == nullptr) {
    return done;
  }
  Memory memory;
  auto values = random_values(kRows * kWidth);
  const uint64_t in = memory.add("values", values.size() * 4);
  values.resize(values.size() - missing);
  memory.write(in, std::as_bytes(std::span(values)));
  const uint64_t out = add(memory, "sums", std::vector<float>(kRows + 1, NAN));
  const Launch launch{.blocks = {kRows, 1, 1},
                      .threads = {kThreads, 1, 1},
                      .dynamic_shared = kThreads / 32 * 4,
                      .registers = 32,
                      .arguments = {in, out, kWidth}};
  done.execution = execute(*module, "sum_rows", launch, memory, {.order = order, .seed = seed});
  done.sums = values_of<float>(memory, out, kRows + 1);
  return done;
}

// The sums in the order of the kernel.
std::vector<float> expected_sums() {
  const auto values = random_values(kRows * kWidth);
  const float scales[] = {1.0F, 0.5F, 0.25F, 0.125F};
  std::vector<float> sums;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<float> parts(kThreads, 0.0F);
    for (size_t i = 0; i < kWidth; ++i) {
      parts[i % kThreads] += values[row * kWidth + i];
    }
    float sum = 0;
    for (size_t warp = 0; warp < kThreads / 32; ++warp) {
      for (size_t distance = 16; distance > 0; distance /= 2) {
        for (size_t lane = 0; lane < distance; ++lane) {
          parts[32 * warp + lane] += parts[32 * warp + lane + distance];
        }
      }
      sum = warp == 0 ? parts[0] : sum + parts[32 * warp];
    }
    sums.push_back(sum * scales[row % 4]);
  }
  float total = 0;
  for (size_t row = 0; row < kRows; ++row) {
    total += sums[row];
  }
  sums.push_back(total);
  return sums;
}

TEST(Rows, SumsHaveTheSameBitsInEveryOrder) {
  const std::string text = golden_text("rows");
  const auto expected = expected_sums();
  for (const Order order : kOrders) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      const Sums done = run(text, order, seed);
      ASSERT_FALSE(done.execution.fault) << done.execution.fault->print();
      EXPECT_EQ(done.sums, expected) << "order " << static_cast<int>(order) << ", seed " << seed;
    }
  }
}

TEST(Rows, RemovedBarriersAndFencesAreRaces) {
  const std::string text = golden_text("rows");
  for (const auto& [removed, which] : {std::pair{"bar.sync \t0;", 0}, std::pair{"bar.sync \t0;", 1},
                                       std::pair{"membar.gl;", 0}, std::pair{"membar.gl;", 1}}) {
    for (const Order order : kOrders) {
      const Sums done = run(replaced(text, removed, "", which), order, kSeed);
      ASSERT_TRUE(done.execution.fault) << removed << which << ", order " << static_cast<int>(order);
      const FaultKind kind = done.execution.fault->kind;
      const bool barrier = std::string(removed) != "membar.gl;";
      EXPECT_TRUE(kind == FaultKind::kRace || (barrier && kind == FaultKind::kUninitialisedMemory))
          << done.execution.fault->print();
    }
  }
}

TEST(Rows, AValueThatNobodyWroteIsNamed) {
  const Sums done = run(golden_text("rows"), Order::kFair, kSeed, 1);
  ASSERT_TRUE(done.execution.fault);
  EXPECT_EQ(done.execution.fault->kind, FaultKind::kUninitialisedMemory);
  EXPECT_EQ(done.execution.fault->buffer, "values + 1196 of 1200 bytes");
  EXPECT_TRUE(done.execution.fault->source.starts_with("rows.cu:")) << done.execution.fault->print();
}

Execution run_scale(const std::string& text, std::vector<float>& scaled, std::vector<uint16_t>& rounded) {
  const auto module = module_of(text);
  const auto values = random_values(70);
  Memory memory;
  const uint64_t in = add(memory, "in", values);
  const uint64_t out = memory.add("out", 70 * 4);
  const uint64_t narrow = memory.add("rounded", 70 * 2);
  const Launch launch{.blocks = {3, 1, 1}, .threads = {32, 1, 1}, .arguments = {in, out, narrow, 70}};
  Execution done = execute(*module, "scale", launch, memory, {});
  if (!done.fault) {
    scaled = values_of<float>(memory, out, 70);
    rounded = values_of<uint16_t>(memory, narrow, 70);
  }
  return done;
}

TEST(Rows, RoundingAndDivision) {
  std::vector<float> scaled;
  std::vector<uint16_t> rounded;
  const Execution done = run_scale(golden_text("rows"), scaled, rounded);
  ASSERT_FALSE(done.fault) << done.fault->print();
  const auto values = random_values(70);
  for (size_t i = 0; i < 70; ++i) {
    auto bits = std::bit_cast<uint32_t>(values[i]);
    bits += 0x7fff + (bits >> 16 & 1);
    EXPECT_EQ(rounded[i], bits >> 16);
    EXPECT_EQ(scaled[i], std::bit_cast<float>(bits & 0xffff0000) / static_cast<float>(1 + i));
  }
}

TEST(Rows, AnIndexOneTooFarIsFound) {
  std::vector<float> scaled;
  std::vector<uint16_t> rounded;
  const std::string text = golden_text("rows");
  // In `scale`, `i >= count` becomes `i > count`.
  const size_t scale = text.find(".entry scale");
  ASSERT_NE(scale, std::string::npos);
  const std::string planted = text.substr(0, scale) + replaced(text.substr(scale), "setp.ge.s32", "setp.gt.s32");
  const Execution done = run_scale(planted, scaled, rounded);
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kOutOfBounds);
  EXPECT_EQ(done.fault->buffer, "in + 280 of 280 bytes") << done.fault->print();
  EXPECT_EQ(done.fault->thread[0], 6u);
}

TEST(Rows, ATextOfLlvmRuns) {
  const auto module = module_of(golden_text("add"));
  ASSERT_NE(module, nullptr);
  const auto a = random_values(50);
  Memory memory;
  Launch launch{.blocks = {2, 1, 1}, .threads = {32, 1, 1}};
  const uint64_t out = memory.add("out", 200);
  launch.arguments = {add(memory, "a", a), add(memory, "b", a), out, std::bit_cast<uint32_t>(-0.75F), 50};
  const Execution done = execute(*module, "add", launch, memory, {});
  ASSERT_FALSE(done.fault) << done.fault->print();
  const auto sums = values_of<float>(memory, out, 50);
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sums[i], std::fmax(std::fma(a[i], -0.75F, a[i]), 0.0F));
  }
}

}  // namespace
}  // namespace xrun::ptx
