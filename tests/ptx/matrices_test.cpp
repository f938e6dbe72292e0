// ldmatrix, and the arithmetic of mma.sync against f64.
#include <cmath>
#include <fmt/format.h>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

float sum(Generation generation, const std::vector<float>& a, const std::vector<float>& b, float addend) {
  std::vector<Term> left;
  std::vector<Term> right;
  const auto bfloat = [](float value) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16); };
  for (size_t i = 0; i < 16; ++i) {
    left.push_back(term_of_bfloat(bfloat(i < a.size() ? a[i] : 0.0F)));
    right.push_back(term_of_bfloat(bfloat(i < b.size() ? b[i] : 0.0F)));
  }
  return sum_of_products(tensor_core(generation), left, right, addend);
}

float h100(const std::vector<float>& a, const std::vector<float>& b, float addend) {
  return sum(Generation::kH100, a, b, addend);
}

TEST(TensorCores, SumsWithinTheBitsAreExact) {
  EXPECT_EQ(h100({1, 2, 3}, {4, 5, 6}, 7), 39.0F);
  EXPECT_EQ(h100({1, -1}, {1, 1}, 0), 0.0F);
  EXPECT_EQ(h100({}, {}, -0.0F), 0.0F);
  EXPECT_FALSE(std::signbit(h100({}, {}, -0.0F)));
}

// 1 + n ulps of 2^-25: the terms survive alignment to 1 on H100 (25 bits), not on A100 (24 bits).
TEST(TensorCores, GenerationsKeepDifferentBits) {
  const std::vector<float> a{1, 0x1p-25F, 0x1p-25F, 0x1p-25F, 0x1p-25F};
  const std::vector<float> b{1, 1, 1, 1, 1};
  EXPECT_EQ(sum(Generation::kH100, a, b, 0), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Generation::kB200, a, b, 0), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Generation::kA100, a, b, 0), 1.0F);
  // A100 adds the second eight products after it has cut off the first sum.
  const std::vector<float> ones(16, 1);
  std::vector<float> late(16, 0);
  late[0] = 1;
  late[1] = 0x1p-24F;
  late[8] = 0x1p-24F;
  EXPECT_EQ(sum(Generation::kH100, late, ones, 0), 1 + 0x1p-23F);
  EXPECT_EQ(sum(Generation::kA100, late, ones, 0), 1.0F);
}

TEST(TensorCores, ResultsAreCutOffTowardsZero) {
  EXPECT_EQ(h100({1, 0x1.8p-24F}, {1, 1}, 0), 1.0F);
  EXPECT_EQ(h100({-1, -0x1.8p-24F}, {1, 1}, 0), -1.0F);
  EXPECT_EQ(h100({1, -0x1p-24F}, {1, 1}, 0), 1 - 0x1p-24F);
  EXPECT_EQ(h100({0x1p-120F}, {0x1p-29F}, 0), 0x1p-149F) << "subnormal numbers are kept";
  EXPECT_EQ(h100({0x1p-120F}, {0x1p-30F}, 0), 0.0F);
}

TEST(TensorCores, InfinitiesAndNans) {
  EXPECT_EQ(h100({INFINITY}, {2}, 1), INFINITY);
  EXPECT_EQ(h100({INFINITY}, {-2}, 1), -INFINITY);
  EXPECT_EQ(h100({0x1p127F}, {4}, 0), INFINITY);
  for (const float nan : {h100({INFINITY}, {0}, 1), h100({INFINITY}, {1}, -INFINITY), h100({NAN}, {1}, 1),
                          h100({1}, {1}, NAN), h100({INFINITY, -INFINITY}, {1, 1}, 0)}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(nan), 0x7fffffffU);
  }
}

std::string words(const char* prefix, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}%{}{}", i == 0 ? "" : ", ", prefix, first + i);
  }
  return text;
}

// A warp loads one, two or four matrices from shared memory; element (r, c) of matrix i is 64 i + 8 r + c.
TEST(Matrices, LdmatrixGivesEachLaneItsElements) {
  for (const int matrices : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      std::string body = ".shared .align 16 .b8 box[512];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, box;\n";
      // Each thread writes 8 elements: its own row.
      body += "shl.b32 %r2, %r0, 4;\nadd.s32 %r3, %r1, %r2;\nshl.b32 %r4, %r0, 3;\n";
      for (int i = 0; i < 8; ++i) {
        body += fmt::format("add.s32 %r5, %r4, {};\ncvt.u16.u32 %h1, %r5;\nst.shared.u16 [%r3+{}], %h1;\n", i, 2 * i);
      }
      body += "bar.sync 0;\n";
      body += fmt::format("ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%r3];\n", matrices,
                          transposed ? ".trans" : "", words("r", 10, matrices));
      body += "mul.wide.u32 %d0, %r0, 16;\nld.param.u64 %d1, [p0];\nadd.s64 %d2, %d1, %d0;\n";
      for (int i = 0; i < matrices; ++i) {
        body += fmt::format("st.global.u32 [%d2+{}], %r{};\n", 4 * i, 10 + i);
      }
      const auto module = module_of(kernel_text(body));
      ASSERT_NE(module, nullptr);
      Memory memory;
      const uint64_t out = add(memory, "out", std::vector<uint16_t>(256));
      const Execution done = execute(*module, "test", {.threads = {32, 1, 1}, .arguments = {out, 0, 0, 0}}, memory, {});
      ASSERT_FALSE(done.fault) << done.fault->print();
      const auto values = values_of<uint16_t>(memory, out, 256);
      for (size_t lane = 0; lane < 32; ++lane) {
        for (size_t i = 0; i < static_cast<size_t>(matrices); ++i) {
          for (size_t half = 0; half < 2; ++half) {
            const size_t row = lane / 4;
            const size_t column = 2 * (lane % 4) + half;
            EXPECT_EQ(values[8 * lane + 2 * i + half], 64 * i + (transposed ? 8 * column + row : 8 * row + column));
          }
        }
      }
    }
  }
}

// mma.sync of both depths on small integers, whose sums are exact in every model.
TEST(Matrices, MmaMultipliesFragments) {
  for (const int depth : {8, 16}) {
    const int a_words = depth / 4;
    const int b_words = depth / 8;
    std::string body = "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d0, %r0, 16;\nmul.wide.u32 %d9, %r0, 8;\n";
    body += "ld.param.u64 %d1, [p0];\nadd.s64 %d2, %d1, %d0;\nld.param.u64 %d3, [p1];\nadd.s64 %d4, %d3, %d9;\n";
    body += "ld.param.u64 %d5, [p2];\nadd.s64 %d6, %d5, %d0;\n";
    for (int i = 0; i < a_words; ++i) {
      body += fmt::format("ld.global.u32 %r{}, [%d2+{}];\n", 10 + i, 4 * i);
    }
    for (int i = 0; i < b_words; ++i) {
      body += fmt::format("ld.global.u32 %r{}, [%d4+{}];\n", 20 + i, 4 * i);
    }
    body += "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d6];\n";
    body += fmt::format(
        "mma.sync.aligned.m16n8k{}.row.col.f32.bf16.bf16.f32 {{%f4, %f5, %f6, %f7}}, {{{}}}, {{{}}}, "
        "{{%f0, %f1, %f2, %f3}};\n",
        depth, words("r", 10, a_words), words("r", 20, b_words));
    body += "ld.param.u64 %d7, [p3];\nadd.s64 %d8, %d7, %d0;\nst.global.v4.f32 [%d8], {%f4, %f5, %f6, %f7};\n";
    const auto module = module_of(kernel_text(body));
    ASSERT_NE(module, nullptr);

    const auto a = [](size_t row, size_t k) { return static_cast<float>(row % 5) - static_cast<float>(k % 7); };
    const auto b = [](size_t k, size_t column) { return static_cast<float>(column % 3 + k % 4); };
    const auto pair = [](float low, float high) {
      return (std::bit_cast<uint32_t>(high) & 0xffff0000) | std::bit_cast<uint32_t>(low) >> 16;
    };
    std::vector<uint32_t> a_parts(128);
    std::vector<uint32_t> b_parts(64);
    std::vector<float> c(128);
    for (size_t lane = 0; lane < 32; ++lane) {
      const size_t group = lane / 4;
      const size_t k = 2 * (lane % 4);
      for (size_t i = 0; i < 4; ++i) {
        const size_t row = group + 8 * (i % 2);
        const size_t at = k + 8 * (i / 2);
        a_parts[4 * lane + i] = pair(a(row, at), a(row, at + 1));
        c[4 * lane + i] = static_cast<float>(lane * 4 + i);
      }
      for (size_t i = 0; i < 2; ++i) {
        b_parts[2 * lane + i] = pair(b(k + 8 * i, group), b(k + 8 * i + 1, group));
      }
    }
    Memory memory;
    Launch launch{.threads = {32, 1, 1}};
    launch.arguments = {add(memory, "a", a_parts), add(memory, "b", b_parts), add(memory, "c", c)};
    const uint64_t out = add(memory, "out", std::vector<float>(128));
    launch.arguments.push_back(out);
    const Execution done = execute(*module, "test", launch, memory, {});
    ASSERT_FALSE(done.fault) << done.fault->print();
    const auto results = values_of<float>(memory, out, 128);
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < 4; ++i) {
        float expected = c[4 * lane + i];
        for (size_t k = 0; k < static_cast<size_t>(depth); ++k) {
          expected += a(lane / 4 + 8 * (i / 2), k) * b(k, 2 * (lane % 4) + i % 2);
        }
        EXPECT_EQ(results[4 * lane + i], expected) << "depth " << depth << ", lane " << lane << ", result " << i;
      }
    }
  }
}

TEST(Matrices, APartialWarpIsAFault) {
  const std::string body =
      "mov.u32 %r1, 0;\nmov.f32 %f1, 0f00000000;\nmma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, "
      "%f7}, {%r1, %r1}, {%r1}, {%f1, %f1, %f1, %f1};\n";
  const auto module = module_of(kernel_text(body));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const Execution done = execute(*module, "test", {.threads = {31, 1, 1}, .arguments = {0, 0, 0, 0}}, memory, {});
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kDivergentWarp);
}

}  // namespace
}  // namespace xrun::ptx
