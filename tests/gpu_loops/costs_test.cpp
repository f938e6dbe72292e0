// The number of instructions that a thread executes for one element, as a golden, and the time to compile each kernel:
//   XRUN_COMPILE_TIMES=1 build/release/xrun_gpu_loops_test --gtest_filter='GpuCosts.*'
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

#include "ops/losses/row_losses.h"
#include "ops/optimizer/own_update.h"
#include "tests/gpu_loops/gpu_runs.h"
#include "tests/gpu_loops/updates.h"
#include "tests/support/command.h"

namespace xrun::ops {
namespace {

using Reach = GpuOperand::Reach;

struct Named {
  std::string name;
  GpuLoop loop;
};

Named named(const std::string& name, const std::string& text, DType dtype = DType::kF32) {
  GpuLoop loop{.expr = *parse_scalar_expr(text), .inputs = {}, .outputs = {}, .dims = {}};
  const auto inputs = loop.expr.inputs_read().size();
  loop.inputs.assign(inputs, {.reach = Reach::kEach, .dtype = dtype, .steps = {}});
  loop.outputs.assign(loop.expr.results().size(), dtype);
  return {name, std::move(loop)};
}

std::vector<Named> kernels() {
  std::vector<Named> all{named("x + y", "x0 + x1"),
                         named("x + y, bf16", "x0 + x1", DType::kBF16),
                         named("relu", "max(x0, 0)"),
                         named("exp", "exp(x0)"),
                         named("log", "log(x0)"),
                         named("tanh", "tanh(x0)"),
                         named("sin", "sin(x0)"),
                         named("silu", "x0 * sigmoid(x0)"),
                         named("gelu", "0.5 * x0 * (1 + erf(0.7071067811865476 * x0))"),
                         named("gelu, bf16", "0.5 * x0 * (1 + erf(0.7071067811865476 * x0))", DType::kBF16)};
  for (const char* const optimizer : {"sgd", "adam", "adamw", "lion"}) {
    all.push_back({optimizer, update_kernel(*read_update_rule(call_of(std::string(optimizer) + "()").args), false)});
  }
  all.push_back({"mse of 1,000", row_loss_kernels("mse", 1000)->loss});
  return all;
}

// The instructions of all threads, divided by the number of elements. All operands are 0.5: no kernel has a branch that
// depends on them.
double instructions_of(const GpuLoop& loop) {
  const int64_t elements = loop.sums == GpuLoop::Sums::kNone ? 1024 : 16'000;
  std::vector<Bits> inputs;
  for (const GpuOperand& input : loop.inputs) {
    const size_t count = input.reach == Reach::kEach ? static_cast<size_t>(elements) : 1;
    inputs.push_back(input.dtype == DType::kF32 ? bits_of_all(std::vector<float>(count, 0.5F))
                                                : bits_of_all(std::vector<Bf16>(count, to_bf16(0.5F))));
  }
  std::vector<size_t> sizes;
  for (const DType output : loop.outputs) {
    sizes.push_back(static_cast<size_t>(elements * size_of(output)));
  }
  const auto run = run_kernel(loop, inputs, sizes, elements, {.races = false});
  return run ? static_cast<double>(run->thread_instructions) / static_cast<double>(elements) : 0;
}

TEST(GpuCosts, InstructionsOfAnElementAreTheGolden) {
  if (open_jit().compiler != "LLVM 19.1.7") {
    GTEST_SKIP() << "the golden is that of LLVM 19.1.7, not of " << open_jit().compiler;
  }
  std::string table;
  for (const Named& kernel : kernels()) {
    table += fmt::format("{:<14} {:>7.2f}\n", kernel.name, instructions_of(kernel.loop));
  }
  EXPECT_TRUE(test::matches_golden(table, "gpu_loops/instructions.txt"));
}

TEST(GpuCosts, CompileTimesArePrinted) {
  if (std::getenv("XRUN_COMPILE_TIMES") == nullptr) {
    GTEST_SKIP() << "XRUN_COMPILE_TIMES=1 measures the compiler";
  }
  const testing::TemporaryDirectory directory;
  ::setenv("XDG_CACHE_HOME", directory.path().c_str(), 1);
  for (const Named& kernel : kernels()) {
    std::vector<double> times;
    for (int i = 0; i < 7; ++i) {
      forget_loops();
      std::filesystem::remove_all(directory.path() + "/xrun");
      const auto begin = std::chrono::steady_clock::now();
      ASSERT_TRUE(compile_ptx(kernel.loop, GpuTarget::kSm90).ok());
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    }
    std::ranges::sort(times);
    fmt::print("{:<14} {:>7.1f} ms, {:.1f} to {:.1f}\n", kernel.name, times[3], times.front(), times.back());
  }
}

}  // namespace
}  // namespace xrun::ops
