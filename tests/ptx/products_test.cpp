// mma.sync of all shapes and types on small integers, whose sums are exact in every model.
#include <cmath>
#include <fmt/format.h>

#include "tests/ptx/kernels.h"
#include "tests/support/ptx/instructions/narrow.h"

namespace xrun::ptx {
namespace {

std::string words(const char* prefix, int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += fmt::format("{}%{}{}", i == 0 ? "" : ", ", prefix, first + i);
  }
  return text;
}

// A shape: the depth, the types of a and b, and the bits of an element.
struct Shape {
  int depth;
  const char* left;
  const char* right;
  int bits;
};

// The code of a small whole number in a type.
uint32_t code_of(std::string_view type, int value) {
  const auto single = std::bit_cast<uint32_t>(static_cast<float>(value));
  return type == "bf16"   ? single >> 16
         : type == "tf32" ? single | 0x1fff  // the low bits are not read
         : type == "f16"  ? encode(kF16Format, value, 0)
         : type == "e4m3" ? encode(kE4m3Format, value, 0, true)
         : type == "e5m2" ? encode(kE5m2Format, value, 0, true)
                          : static_cast<uint32_t>(value) & 0xff;
}

std::string text_of(const Shape& shape, bool integers) {
  const int left = shape.depth * shape.bits / 64;
  const int right = left / 2;
  const char* const sum = integers ? "s32" : "f32";
  std::string body = "mov.u32 %r0, %tid.x;\nmul.wide.u32 %d0, %r0, 16;\n";
  for (int i = 0; i < 4; ++i) {
    body += fmt::format("ld.param.u64 %d{}, [p{}];\nadd.s64 %d{}, %d{}, %d0;\n", 1 + i, i, 5 + i, 1 + i);
  }
  for (int i = 0; i < left; ++i) {
    body += fmt::format("ld.global.u32 %r{}, [%d5+{}];\n", 10 + i, 4 * i);
  }
  for (int i = 0; i < right; ++i) {
    body += fmt::format("ld.global.u32 %r{}, [%d6+{}];\n", 20 + i, 4 * i);
  }
  const char* const prefix = integers ? "r" : "f";
  const int first = integers ? 24 : 0;
  body += fmt::format("ld.global.v4.b32 {{{}}}, [%d7];\n", words(prefix, first, 4));
  body += fmt::format("mma.sync.aligned.m16n8k{}.row.col.{}.{}.{}.{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n", shape.depth,
                      sum, shape.left, shape.right, sum, words(prefix, first + 4, 4), words("r", 10, left),
                      words("r", 20, right), words(prefix, first, 4));
  body += fmt::format("st.global.v4.b32 [%d8], {{{}}};\n", words(prefix, first + 4, 4));
  return replaced(kernel_text(body), "sm_80", shape.bits == 8 && !integers ? "sm_89" : "sm_80");
}

int a_of(size_t row, size_t k) { return static_cast<int>(row % 5) - static_cast<int>(k % 7); }
int b_of(size_t k, size_t column) { return static_cast<int>(column % 3 + k % 4); }

TEST(Products, FragmentsOfAllShapes) {
  for (const Shape& shape : {Shape{8, "bf16", "bf16", 16}, Shape{16, "bf16", "bf16", 16}, Shape{8, "f16", "f16", 16},
                             Shape{16, "f16", "f16", 16}, Shape{4, "tf32", "tf32", 32}, Shape{8, "tf32", "tf32", 32},
                             Shape{16, "e4m3", "e4m3", 8}, Shape{32, "e4m3", "e5m2", 8}, Shape{32, "e5m2", "e5m2", 8},
                             Shape{16, "s8", "s8", 8}, Shape{32, "s8", "u8", 8}}) {
    SCOPED_TRACE(fmt::format("depth {}, {}, {}", shape.depth, shape.left, shape.right));
    const bool integers = std::string_view(shape.left) == "s8";
    const auto module = module_of(text_of(shape, integers));
    ASSERT_NE(module, nullptr);
    const auto width = static_cast<size_t>(32 / shape.bits);
    const auto depth = static_cast<size_t>(shape.depth);
    std::vector<uint32_t> a_parts(128);
    std::vector<uint32_t> b_parts(128);
    std::vector<uint32_t> c(128);
    for (size_t lane = 0; lane < 32; ++lane) {
      for (size_t i = 0; i < depth / (2 * width); ++i) {
        for (size_t e = 0; e < width; ++e) {
          const size_t k = width * (lane % 4) + e;
          const int left = a_of(lane / 4 + 8 * (i % 2), k + 4 * width * (i / 2));
          const auto shift = static_cast<uint32_t>(shape.bits) * static_cast<uint32_t>(e);
          a_parts[4 * lane + i] |= code_of(shape.left, left) << shift;
          if (i < depth / (4 * width)) {
            b_parts[4 * lane + i] |= code_of(shape.right, b_of(k + 4 * width * i, lane / 4)) << shift;
          }
        }
      }
      for (size_t i = 0; i < 4; ++i) {
        const auto addend = static_cast<uint32_t>(lane * 4 + i);
        c[4 * lane + i] = integers ? addend : std::bit_cast<uint32_t>(static_cast<float>(addend));
      }
    }
    for (const Generation generation : {Generation::kA100, Generation::kH100, Generation::kB200}) {
      Memory memory;
      Launch launch{.threads = {32, 1, 1}};
      launch.arguments = {add(memory, "a", a_parts), add(memory, "b", b_parts), add(memory, "c", c)};
      const uint64_t out = add(memory, "out", std::vector<uint32_t>(128));
      launch.arguments.push_back(out);
      const Execution done = execute(*module, "test", launch, memory, {.generation = generation});
      if (module->target == "sm_89" && generation == Generation::kA100) {
        ASSERT_TRUE(done.fault);
        EXPECT_EQ(done.fault->kind, FaultKind::kLaunch);
        continue;
      }
      ASSERT_FALSE(done.fault) << done.fault->print();
      const auto results = values_of<uint32_t>(memory, out, 128);
      for (size_t lane = 0; lane < 32; ++lane) {
        for (size_t i = 0; i < 4; ++i) {
          int expected = static_cast<int>(lane * 4 + i);
          for (size_t k = 0; k < depth; ++k) {
            expected += a_of(lane / 4 + 8 * (i / 2), k) * b_of(k, 2 * (lane % 4) + i % 2);
          }
          const uint32_t bits = results[4 * lane + i];
          EXPECT_EQ(integers ? static_cast<double>(static_cast<int32_t>(bits)) : std::bit_cast<float>(bits), expected)
              << "lane " << lane << ", result " << i;
        }
      }
    }
  }
}

TEST(Products, ShapesAndTypesThatAreMissingAreRefused) {
  for (const char* line :
       {"mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r1, %r2};",
        "mma.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
        "{%f1, %f2, %f3, %f4};",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
        "{%f1, %f2, %f3, %f4};",
        "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
        "{%f1, %f2, %f3, %f4};"}) {
    EXPECT_FALSE(load_module(kernel_text(line)).ok()) << line;
  }
}

TEST(Products, AWarpWithMissingThreadsIsAFault) {
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
