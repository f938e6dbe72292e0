// Comparison of one instruction with the arithmetic of the processor on random operands.
#pragma once

#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {

// An instruction with the registers %a, %b and %c as sources and %x as result, and its meaning. A width of 1 is a
// predicate: of a source the lowest bit, of the result 0 or 1.
struct LaneCase {
  std::string line;
  std::array<int, 3> source_bits{32, 32, 32};
  int result_bits = 32;
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> meaning;
};

// Operands of each instruction; XRUN_PTX_OPERANDS sets another number.
inline size_t operands_of_a_case() {
  const char* const wanted = std::getenv("XRUN_PTX_OPERANDS");
  return wanted == nullptr ? 8192 : std::strtoull(wanted, nullptr, 10);
}

// Half of the operands are random bits. The others are small, or near the ends of integers and of floating-point
// numbers of 16, 32 and 64 bits.
inline uint64_t random_operand(std::mt19937_64& random, int bits) {
  static constexpr uint64_t kSpecial[] = {0,
                                          1,
                                          0x7f,
                                          0x80,
                                          0x7fff,
                                          0x8000,
                                          0x3f80,
                                          0x7f80,
                                          0x3f800000,
                                          0x00800000,
                                          0x007fffff,
                                          0x7f800000,
                                          0x7fc00000,
                                          0x7f7fffff,
                                          0x7fffffff,
                                          0x80000000,
                                          0x4f000000,
                                          0x3ff0000000000000,
                                          0x7ff0000000000000,
                                          0x0010000000000000,
                                          0x7fffffffffffffff,
                                          0x8000000000000000,
                                          0x43e0000000000000,
                                          0x3c00,
                                          0x7c00};
  switch (random() % 8) {
    case 0:
      return random() % 40;
    case 1:
      return uint64_t{0} - random() % 40;
    case 2:
      return kSpecial[random() % std::size(kSpecial)] ^ (random() % 2 << (bits - 1));
    case 3:
      return kSpecial[random() % std::size(kSpecial)] + random() % 8 - 4;
    default:
      return random();
  }
}

inline std::string text_of(const LaneCase& tried) {
  std::string body;
  const auto declare = [&](const std::string& name, int bits) {
    body += fmt::format(".reg .{} {};\n", bits == 1 ? "pred" : fmt::format("b{}", bits), name);
  };
  body += "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\nmad.lo.s32 %r3, %r0, %r1, %r2;\n";
  body += "mul.wide.u32 %d0, %r3, 8;\n";
  for (size_t i = 0; i < 3; ++i) {
    const std::string name = fmt::format("%{}", "abc"[i]);
    const int bits = tried.source_bits[i];
    declare(name, bits);
    body += fmt::format("ld.param.u64 %d1, [p{}];\nadd.s64 %d2, %d1, %d0;\n", i);
    body += bits == 1 ? fmt::format("ld.global.u32 %r4, [%d2];\nand.b32 %r4, %r4, 1;\nsetp.ne.s32 {}, %r4, 0;\n", name)
                      : fmt::format("ld.global.b{} {}, [%d2];\n", bits, name);
  }
  declare("%x", tried.result_bits);
  body += tried.line + "\nld.param.u64 %d1, [p3];\nadd.s64 %d2, %d1, %d0;\n";
  body += tried.result_bits == 1 ? "selp.b32 %r4, 1, 0, %x;\nst.global.u32 [%d2], %r4;\n"
                                 : fmt::format("st.global.b{} [%d2], %x;\n", tried.result_bits);
  return kernel_text(body);
}

inline uint64_t low_bits(uint64_t value, int bits) { return bits == 64 ? value : value & ((uint64_t{1} << bits) - 1); }

// Executes the instruction on random operands and compares all results. `allowed` leaves operands out.
inline void check_lanes(
    const LaneCase& tried, const std::function<bool(uint64_t, uint64_t, uint64_t)>& allowed =
                               [](uint64_t, uint64_t, uint64_t) { return true; }) {
  const auto module = module_of(text_of(tried));
  ASSERT_NE(module, nullptr) << tried.line;
  const size_t count = (operands_of_a_case() + 127) / 128 * 128;
  std::mt19937_64 random(kSeed);
  std::array<std::vector<uint64_t>, 3> operands;
  for (size_t i = 0; i < count;) {
    std::array<uint64_t, 3> drawn{};
    for (size_t k = 0; k < 3; ++k) {
      drawn[k] = low_bits(random_operand(random, tried.source_bits[k]), tried.source_bits[k]);
    }
    if (allowed(drawn[0], drawn[1], drawn[2])) {
      for (size_t k = 0; k < 3; ++k) {
        operands[k].push_back(drawn[k]);
      }
      ++i;
    }
  }
  Memory memory;
  Launch launch{.blocks = {static_cast<uint32_t>(count / 128), 1, 1}, .threads = {128, 1, 1}};
  for (const auto& values : operands) {
    launch.arguments.push_back(add(memory, "operands", values));
  }
  const uint64_t out = add(memory, "results", std::vector<uint64_t>(count));
  launch.arguments.push_back(out);
  const Execution done = execute(*module, "test", launch, memory, {});
  ASSERT_FALSE(done.fault) << tried.line << ": " << done.fault->print();
  const auto results = values_of<uint64_t>(memory, out, count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t expected =
        low_bits(tried.meaning(operands[0][i], operands[1][i], operands[2][i]), tried.result_bits);
    ASSERT_EQ(results[i], expected) << tried.line
                                    << fmt::format(" of {:#x}, {:#x}, {:#x} gives {:#x}, not {:#x}; seed {}",
                                                   operands[0][i], operands[1][i], operands[2][i], results[i], expected,
                                                   kSeed);
  }
}

inline float to_float(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double to_double(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits_of(double value) { return std::bit_cast<uint64_t>(value); }

}  // namespace xrun::ptx
