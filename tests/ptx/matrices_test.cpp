// ldmatrix, stmatrix and movmatrix.
#include <fmt/format.h>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

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

// Registers of a matrix, stored by rows or by columns and loaded as bytes: element (r, c) of matrix i is 64 i + 8 r +
// c.
TEST(Matrices, StmatrixIsTheInverseOfLdmatrix) {
  for (const int matrices : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      std::string body = ".shared .align 16 .b8 box[512];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, box;\n";
      // The elements of lane l begin at 8 (l / 4) + 2 (l % 4) = 2 l.
      body += "shl.b32 %r4, %r0, 1;\nshl.b32 %r5, %r0, 4;\nadd.s32 %r3, %r1, %r5;\n";
      for (int i = 0; i < matrices; ++i) {
        body += fmt::format("add.s32 %r6, %r4, {};\nadd.s32 %r7, %r6, 1;\nshl.b32 %r8, %r7, 16;\n", 64 * i);
        body += fmt::format("or.b32 %r{}, %r6, %r8;\n", 10 + i);
      }
      body += fmt::format("stmatrix.sync.aligned.m8n8.x{}{}.shared.b16 [%r3], {{{}}};\nbar.sync 0;\n", matrices,
                          transposed ? ".trans" : "", words("r", 10, matrices));
      body += "ld.param.u64 %d1, [p0];\nmul.wide.u32 %d0, %r0, 16;\nadd.s64 %d2, %d1, %d0;\n";
      body += fmt::format("setp.lt.u32 %p1, %r0, {};\n@%p1 ld.shared.v2.u64 {{%d3, %d4}}, [%r3];\n", 8 * matrices);
      body += "@%p1 st.global.v2.u64 [%d2], {%d3, %d4};\n";
      const auto module = module_of(replaced(kernel_text(body), "sm_80", "sm_90"));
      ASSERT_NE(module, nullptr);
      Memory memory;
      const uint64_t out = add(memory, "out", std::vector<uint16_t>(256));
      const Execution done = execute(*module, "test", {.threads = {32, 1, 1}, .arguments = {out, 0, 0, 0}}, memory, {});
      ASSERT_FALSE(done.fault) << done.fault->print();
      const auto values = values_of<uint16_t>(memory, out, 256);
      for (size_t at = 0; at < 64 * static_cast<size_t>(matrices); ++at) {
        const size_t row = at / 8 % 8;
        const size_t column = at % 8;
        EXPECT_EQ(values[at], at / 64 * 64 + (transposed ? 8 * column + row : 8 * row + column));
      }
    }
  }
}

TEST(Matrices, MovmatrixTransposes) {
  const auto module = module_of(
      kernel_text("mov.u32 %r0, %tid.x;\nshl.b32 %r1, %r0, 1;\nadd.s32 %r2, %r1, 1;\nshl.b32 %r3, %r2, 16;\n"
                  "or.b32 %r4, %r1, %r3;\nmovmatrix.sync.aligned.m8n8.trans.b16 %r4, %r4;\nld.param.u64 %d1, [p0];\n"
                  "mul.wide.u32 %d0, %r0, 4;\nadd.s64 %d2, %d1, %d0;\nst.global.u32 [%d2], %r4;\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const uint64_t out = add(memory, "out", std::vector<uint16_t>(64));
  const Execution done = execute(*module, "test", {.threads = {32, 1, 1}, .arguments = {out, 0, 0, 0}}, memory, {});
  ASSERT_FALSE(done.fault) << done.fault->print();
  const auto values = values_of<uint16_t>(memory, out, 64);
  for (size_t at = 0; at < 64; ++at) {
    EXPECT_EQ(values[at], at % 8 * 8 + at / 8);
  }
}

}  // namespace
}  // namespace xrun::ptx
