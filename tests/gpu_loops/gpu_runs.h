// Kernels that the compiler writes for GPUs, executed on the PTX machine.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "ops/compute_modes.h"
#include "ops/jit/compiler.h"
#include "ops/jit/element_loop.h"
#include "ops/jit/gpu_loop.h"
#include "ops/simd/simd.h"
#include "tests/support/ptx/launch.h"

namespace xrun::ops {

using Bits = std::vector<std::byte>;

template <class T>
Bits bits_of_all(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Suites of this type are skipped if there is no compiler.
class GpuLoops : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const JitReport report = open_jit(); report.compiler.empty()) {
      GTEST_SKIP() << (report.failure ? report.failure->message : "XRUN_JIT=off");
    }
  }
};

// Returns the first word of a text that may change bits, or "": approximations, fused operations, and arithmetic of f32
// that does not round to nearest or does not flush denormal numbers.
inline std::string inexact_word(const std::string& ptx) {
  for (const char* word : {"approx",     "ex2",        "lg2",        "fma",        "mad.rn", "rsqrt",      "sin.",
                           "cos.",       ".local",     "call",       "add.f",      "sub.f",  "mul.f",      "div.f",
                           "rcp.f",      "sqrt.f",     "neg.f32",    "min.f",      "max.f",  "add.rn.f32", "sub.rn.f32",
                           "mul.rn.f32", "div.rn.f32", "rcp.rn.f32", "sqrt.rn.f32"}) {
    if (ptx.find(word) != std::string::npos) {
      return word;
    }
  }
  return "";
}
inline void expect_exact(const std::string& ptx) { EXPECT_EQ(inexact_word(ptx), "") << ptx; }

struct GpuRun {
  std::vector<Bits> results;
  uint64_t thread_instructions = 0;
};

struct GpuRunOptions {
  GpuTarget target = GpuTarget::kSm80;
  std::vector<int> in_place;  // for each result, the operand whose memory it overwrites, or -1; empty: all -1
  bool races = true;
  ptx::Order order = ptx::Order::kFair;
};

// Compiles a kernel and executes it. `inputs` are the bytes of the operands, `sizes` the number of bytes of each
// result. Returns nullopt, and the running test fails, if the kernel cannot be compiled or has a fault.
inline std::optional<GpuRun> run_kernel(const GpuLoop& loop, const std::vector<Bits>& inputs,
                                        const std::vector<size_t>& sizes, int64_t elements,
                                        const GpuRunOptions& options = {}) {
  const auto ptx = compile_ptx(loop, options.target);
  if (!ptx.ok()) {
    ADD_FAILURE() << ptx.error().message;
    return std::nullopt;
  }
  expect_exact(*ptx);
  const auto module = ptx::load_module(*ptx);
  if (!module.ok()) {
    ADD_FAILURE() << module.error().message << "\n" << *ptx;
    return std::nullopt;
  }
  ptx::Memory memory;
  ptx::Launch launch{.blocks = {static_cast<uint32_t>(gpu_blocks(loop, elements)), 1, 1},
                     .threads = {static_cast<uint32_t>(kGpuThreads), 1, 1}};
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (loop.inputs[k].reach == GpuOperand::Reach::kNumber) {
      uint32_t number = 0;
      std::memcpy(&number, inputs[k].data(), sizeof number);
      launch.arguments.push_back(number);
    } else {
      launch.arguments.push_back(memory.add("operand " + std::to_string(k), inputs[k].size()));
      memory.write(launch.arguments.back(), inputs[k]);
    }
  }
  for (size_t r = 0; r < sizes.size(); ++r) {
    const int same = options.in_place.empty() ? -1 : options.in_place[r];
    launch.arguments.push_back(same >= 0 ? launch.arguments[static_cast<size_t>(same)]
                                         : memory.add("result " + std::to_string(r), sizes[r]));
  }
  launch.arguments.push_back(static_cast<uint64_t>(elements));
  const ptx::Execution done =
      ptx::execute(**module, kGpuKernel, launch, memory, {.order = options.order, .races = options.races});
  if (done.fault) {
    ADD_FAILURE() << done.fault->print() << "\n" << describe(loop, options.target) << "\n" << *ptx;
    return std::nullopt;
  }
  GpuRun run{.results = {}, .thread_instructions = done.thread_instructions};
  for (size_t r = 0; r < sizes.size(); ++r) {
    run.results.emplace_back(sizes[r]);
    memory.read(launch.arguments[inputs.size() + r], run.results.back());
  }
  return run;
}

// Compares bits, but treats all NaNs as equal, because processors differ in which NaN they return.
template <class T>
bool same_number(const std::byte* a, const std::byte* b) {
  T x;
  T y;
  std::memcpy(&x, a, sizeof x);
  std::memcpy(&y, b, sizeof y);
  if constexpr (std::is_same_v<T, double>) {
    return (std::isnan(x) && std::isnan(y)) || std::memcmp(a, b, sizeof x) == 0;
  } else {
    return (std::isnan(to_float(x)) && std::isnan(to_float(y))) || std::memcmp(a, b, sizeof x) == 0;
  }
}

// Returns the index of the first numbers of type T that differ; -1 if all are equal.
template <class T>
int64_t first_difference(const Bits& a, const Bits& b) {
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()) / sizeof(T); ++i) {
    if (!same_number<T>(a.data() + i * sizeof(T), b.data() + i * sizeof(T))) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

inline int64_t first_difference(DType dtype, const Bits& a, const Bits& b) {
  return dtype == DType::kBF16  ? first_difference<Bf16>(a, b)
         : dtype == DType::kF16 ? first_difference<Half>(a, b)
                                : first_difference<float>(a, b);
}

// Computes the results on the CPU, compiled or interpreted; they get `sizes` bytes. The loop is made before the modes
// are entered, which would flush its constants.
inline std::vector<Bits> run_on_cpu(const LoopForm& form, const std::vector<Bits>& inputs,
                                    const std::vector<size_t>& sizes, int64_t elements, bool compiled) {
  const ElementLoop loop(form, detect_isa(), compiled);
  EXPECT_EQ(loop.compiled(), compiled);
  const ComputeModes modes;
  // The interpreter reads whole lanes.
  std::vector<Bits> padded = inputs;
  std::vector<const void*> from;
  for (Bits& input : padded) {
    input.resize(input.size() + kLanes * sizeof(float));
    from.push_back(input.data());
  }
  std::vector<Bits> results;
  std::vector<void*> to;
  results.reserve(sizes.size());
  for (const size_t size : sizes) {
    to.push_back(results.emplace_back(size).data());
  }
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> scratch(static_cast<size_t>(loop.scratch_bytes()) / sizeof(Line) + 1);
  loop.run(from.data(), to.data(), elements, scratch[0].bytes);
  return results;
}

inline const std::vector<float>& special_values() {
  static const std::vector<float> values{0.0F,       -0.0F,
                                         1.0F,       -1.0F,
                                         0.5F,       -0.5F,
                                         2.0F,       -2.0F,
                                         0.625F,     -0.625F,
                                         1e-30F,     -1e-30F,
                                         1e-42F,     -1e-42F,
                                         3.0F,       -3.0F,
                                         88.0F,      -88.0F,
                                         88.8F,      -87.4F,
                                         104.0F,     -104.0F,
                                         1e9F,       -1e9F,
                                         1.5e9F,     1e20F,
                                         3e38F,      -3e38F,
                                         INFINITY,   -INFINITY,
                                         NAN,        0.707F,
                                         0.7072F,    7.5F,
                                         -7.5F,      0x1p-126F,
                                         -0x1p-126F, 0x1.fffffcp-127F,
                                         0x1p-149F,  -0x1p-149F,
                                         0x1p-125F,  0x1p30F,
                                         -0x1p30F,   0x1.000002p30F,
                                         65504.0F,   65520.0F,
                                         0x1p-24F,   0x1p-25F};
  return values;
}

// Returns special numbers, common numbers, and random bits.
inline std::vector<float> random_numbers(std::mt19937& random, size_t count) {
  std::normal_distribution<float> draw(0, 4);
  std::vector<float> values(count);
  for (float& value : values) {
    const uint32_t kind = random() % 8;
    const auto any = static_cast<uint32_t>(random());
    value = kind < 2   ? special_values()[random() % special_values().size()]
            : kind < 3 ? std::bit_cast<float>(any)
                       : draw(random);
  }
  return values;
}

}  // namespace xrun::ops
