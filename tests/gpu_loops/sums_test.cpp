// The kernels of losses that compare two tensors, and of their gradients, have the bits of the CPU's kernels, for rows
// of any length and in any order of the warps.
#include "ops/losses/row_losses.h"
#include "ops/op.h"
#include "tests/gpu_loops/gpu_runs.h"

namespace xrun::ops {
namespace {

class GpuSums : public GpuLoops {};

// Runs the CPU's operator on `rows` rows of n elements and returns its result.
Bits run_operator(const std::string& name, int64_t rows, int64_t n, std::vector<Bits> inputs, size_t bytes) {
  const TensorType full{.dtype = DType::kF32, .dims = {kBatch, n}};
  const TensorType one{.dtype = DType::kF32, .dims = {kBatch}};
  KernelSpec spec{.inputs = {full, full}, .outputs = {}, .attrs = {}, .rows = rows, .isa = detect_isa()};
  spec.outputs = {inputs.size() == 3 ? full : one};
  if (inputs.size() == 3) {
    spec.inputs.push_back(one);
  }
  const auto kernel = find_op(name)->cpu(spec);
  if (!kernel.ok()) {
    ADD_FAILURE() << kernel.error().message;
    return {};
  }
  std::vector<TensorView> views;
  for (Bits& input : inputs) {
    views.push_back({input.data()});
  }
  Bits result(bytes);
  const std::vector<TensorView> results{{result.data()}};
  const ComputeModes modes;
  EXPECT_TRUE((*kernel)->run({.inputs = views, .outputs = results}).ok());
  return result;
}

std::vector<float> some_numbers(std::mt19937& random, int64_t count) {
  std::vector<float> values = random_numbers(random, static_cast<size_t>(count));
  for (float& value : values) {  // infinities would make all sums NaN
    value = std::fabs(value) < 1e20F ? value : 0.25F;
  }
  return values;
}

TEST_F(GpuSums, HaveTheBitsOfTheLossesOnCpus) {
  std::mt19937 random(21);
  for (const std::string name : {"mse", "bce"}) {
    for (const auto& [rows, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {3, 5}, {2, 15}, {4, 16}, {5, 17}, {33, 40}, {1, 300}, {17, 64}, {16, 33}}) {
      SCOPED_TRACE(name + " of " + std::to_string(rows) + " rows of " + std::to_string(n));
      const std::vector<Bits> inputs{bits_of_all(some_numbers(random, rows * n)),
                                     bits_of_all(some_numbers(random, rows * n))};
      const auto kernels = row_loss_kernels(name, n);
      ASSERT_TRUE(kernels.has_value());
      const auto bytes = static_cast<size_t>(rows) * sizeof(float);
      for (const ptx::Order order : {ptx::Order::kFair, ptx::Order::kReversed, ptx::Order::kThreadLast}) {
        const auto loss = run_kernel(kernels->loss, inputs, {bytes}, rows * n, {.order = order});
        ASSERT_TRUE(loss.has_value());
        EXPECT_EQ(first_difference<float>(loss->results[0], run_operator(name, rows, n, inputs, bytes)), -1);
      }
      std::vector<Bits> with_slope = inputs;
      with_slope.push_back(bits_of_all(some_numbers(random, rows)));
      const auto gradient = run_kernel(kernels->gradient, with_slope, {inputs[0].size()}, rows * n);
      ASSERT_TRUE(gradient.has_value());
      EXPECT_EQ(first_difference<float>(gradient->results[0],
                                        run_operator(name + ".grad", rows, n, with_slope, inputs[0].size())),
                -1);
    }
  }
  EXPECT_FALSE(row_loss_kernels("softmax_ce", 10).has_value());
}

}  // namespace
}  // namespace xrun::ops
