// Batch norm over several row blocks in one launch has the bits of the processor, which computes block by block.
#include "tests/ops/gpu/kernel_runner.h"

namespace xrun::ops::gpu {
namespace {

constexpr int64_t kBlocks = 2;
constexpr int64_t kRows = 130;  // more than two runs of 64 rows
constexpr int64_t kChannels = 5;
constexpr float kEps = 1e-5F;

Raw numbers(DType dtype, const std::vector<float>& values) {
  return dtype == DType::kF32 ? raw(values) : raw(rounded(values));
}

::testing::AssertionResult same(DType dtype, const Raw& gpu, const Raw& cpu) {
  return dtype == DType::kF32 ? same_bits(values_of<float>(gpu), values_of<float>(cpu))
                              : same_bits(values_of<uint16_t>(gpu), values_of<uint16_t>(cpu));
}

// Operands of all row blocks, and those of one block.
struct NormCase {
  explicit NormCase(DType of)
      : dtype(of),
        x(numbers(of, random_floats(kBlocks * kRows * kChannels, 1))),
        other(numbers(of, random_floats(kBlocks * kRows * kChannels, 2))),
        weight(raw(random_floats(kChannels, 3))),
        bias(raw(random_floats(kChannels, 4))),
        tensor(type_of({kBatch, kChannels}, of)) {}

  Raw block(const Raw& all, int64_t b) const {
    const auto bytes = static_cast<std::ptrdiff_t>(all.size() / kBlocks);
    return {all.begin() + b * bytes, all.begin() + (b + 1) * bytes};
  }
  std::string named(const std::string& kernel) const { return kernel + (dtype == DType::kF32 ? "_f32" : "_bf16"); }

  DType dtype;
  Raw x, other, weight, bias;
  TensorType tensor;
  TensorType column = type_of({kChannels}), statistic = type_of({kPerBlock, kChannels});
};

struct Statistics {
  Raw mean, var, y;  // all blocks
};

// The forward pass of the processor. `op` is bn or bn.add.
Statistics forward(const NormCase& at, const std::string& op, bool relu) {
  CpuCall call{.attrs = {{"eps", 1e-5}, {"momentum", 0.1}, {"relu", relu}}, .rows = kRows};
  call.inputs = {at.tensor, at.column, at.column, at.column, at.column};
  call.outputs = {at.tensor, at.statistic, at.statistic};
  if (op == "bn.add") {
    call.inputs.insert(call.inputs.begin(), at.tensor);
  }
  Statistics done;
  for (int64_t b = 0; b < kBlocks; ++b) {
    std::vector<Raw> given{at.block(at.x, b), at.weight, at.bias, at.weight, at.weight};
    if (op == "bn.add") {
      given.insert(given.begin() + 1, at.block(at.other, b));
    }
    std::vector<Raw> results{Raw(given[0].size()), Raw(at.weight.size()), Raw(at.weight.size())};
    run_cpu(op, call, given, results);
    done.y.insert(done.y.end(), results[0].begin(), results[0].end());
    done.mean.insert(done.mean.end(), results[1].begin(), results[1].end());
    done.var.insert(done.var.end(), results[2].begin(), results[2].end());
  }
  return done;
}

TEST(GpuBatchNorm, TheForwardPassHasTheBitsOfTheProcessor) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const NormCase at(dtype);
    for (const Target target : kTargets) {
      Machine machine(target, ptx::Order::kReversed);
      const uint64_t x = machine.add("x", at.x), other = machine.add("other", at.other);
      const uint64_t weight = machine.add("weight", at.weight), bias = machine.add("bias", at.bias);
      const uint64_t mean = machine.empty<float>("mean", kBlocks * kChannels);
      const uint64_t var = machine.empty<float>("var", kBlocks * kChannels);
      const uint64_t y = machine.empty<std::byte>("y", at.x.size());
      machine.run("batch_norm", at.named("bn_statistics"), {1, kBlocks, 1}, {32, 8, 1}, x, mean, var, kRows, kChannels);
      const std::array<uint32_t, 3> grid{1, blocks_for(kRows, 64), kBlocks};
      for (const bool relu : {false, true}) {
        const Statistics plain = forward(at, "bn", relu), sum = forward(at, "bn.add", relu);
        EXPECT_TRUE(same(DType::kF32, machine.read<std::byte>(mean, plain.mean.size()), plain.mean));
        EXPECT_TRUE(same(DType::kF32, machine.read<std::byte>(var, plain.var.size()), plain.var));
        machine.run("batch_norm", at.named(relu ? "bn_relu" : "bn"), grid, {32, 8, 1}, x, mean, var, weight, bias, y,
                    kRows, kChannels, kChannels, kEps);
        EXPECT_TRUE(same(dtype, machine.read<std::byte>(y, at.x.size()), plain.y)) << relu;
        machine.run("batch_norm", at.named(relu ? "bn_add_relu" : "bn_add"), grid, {32, 8, 1}, x, other, mean, var,
                    weight, bias, y, kRows, kChannels, kChannels, kEps);
        EXPECT_TRUE(same(dtype, machine.read<std::byte>(y, at.x.size()), sum.y)) << relu;
      }
    }
  }
}

TEST(GpuBatchNorm, GradientsHaveTheBitsOfTheProcessor) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool relu : {false, true}) {
      const NormCase at(dtype);
      const Statistics kept = forward(at, "bn", relu);
      CpuCall call{.attrs = {{"eps", 1e-5}, {"relu", relu}}, .rows = kRows};
      call.inputs = {at.tensor, at.tensor, at.column, at.column, at.statistic, at.statistic};
      call.outputs = {at.tensor, at.column, at.column};
      Raw dx, dweight = at.bias, dbias = at.weight;  // the accumulators have values
      for (int64_t b = 0; b < kBlocks; ++b) {
        std::vector<Raw> results{Raw(at.x.size() / kBlocks), dweight, dbias};
        run_cpu("bn.grad", call,
                {at.block(at.x, b), at.block(at.other, b), at.weight, at.bias, at.block(kept.mean, b),
                 at.block(kept.var, b)},
                results);
        dx.insert(dx.end(), results[0].begin(), results[0].end());
        dweight = results[1];
        dbias = results[2];
      }
      for (const Target target : kTargets) {
        Machine machine(target, ptx::Order::kGreedy);
        const uint64_t x = machine.add("x", at.x), dy = machine.add("dy", at.other);
        const uint64_t weight = machine.add("weight", at.weight), bias = machine.add("bias", at.bias);
        const uint64_t mean = machine.add("mean", kept.mean), var = machine.add("var", kept.var);
        const uint64_t sum = machine.empty<float>("sum", kBlocks * kChannels);
        const uint64_t dot = machine.empty<float>("dot", kBlocks * kChannels);
        const uint64_t result = machine.empty<std::byte>("dx", at.x.size());
        const uint64_t weights = machine.add("dweight", at.bias), biases = machine.add("dbias", at.weight);
        const std::string kernel = relu ? "bn_relu_grad" : "bn_grad";
        machine.run("batch_norm_grad", at.named(kernel + "_sums"), {1, kBlocks, 1}, {32, 8, 1}, x, dy, mean, var,
                    weight, bias, sum, dot, kRows, kChannels, kEps);
        machine.run("batch_norm_grad", at.named(kernel), {1, blocks_for(kRows, 64), kBlocks}, {32, 8, 1}, x, dy, mean,
                    var, weight, bias, sum, dot, result, kRows, kChannels, kEps);
        machine.run_each("batch_norm_grad", "bn_grad_fold", kChannels, sum, dot, weights, biases, kBlocks, kChannels);
        EXPECT_TRUE(same(dtype, machine.read<std::byte>(result, dx.size()), dx)) << relu;
        EXPECT_TRUE(same(DType::kF32, machine.read<std::byte>(weights, dweight.size()), dweight)) << relu;
        EXPECT_TRUE(same(DType::kF32, machine.read<std::byte>(biases, dbias.size()), dbias)) << relu;
      }
    }
  }
}

TEST(GpuBatchNorm, RunningStatisticsHaveTheBitsOfTheProcessor) {
  constexpr int64_t kMany = 7;
  const NormCase at(DType::kF32);
  const auto means = random_floats(kMany * kChannels, 5);
  auto vars = random_floats(kMany * kChannels, 6);
  std::ranges::for_each(vars, [](float& v) { v = std::abs(v); });
  auto running_mean = random_floats(kChannels, 7), running_var = random_floats(kChannels, 8);
  const auto made = find_op("bn")->cpu({.inputs = {at.tensor, at.column, at.column, at.column, at.column},
                                        .outputs = {at.tensor, at.statistic, at.statistic},
                                        .attrs = {{"eps", 1e-5}, {"momentum", 0.1}, {"relu", false}},
                                        .rows = kRows});
  ASSERT_TRUE(made.ok());
  auto cpu_mean = running_mean, cpu_var = running_var;
  const auto view = [](const std::vector<float>& values) {
    return TensorView{reinterpret_cast<std::byte*>(const_cast<float*>(values.data()))};
  };
  const std::vector<TensorView> inputs{{}, {}, {}, view(cpu_mean), view(cpu_var)};
  const std::vector<TensorView> outputs{{}, view(means), view(vars)};
  ASSERT_TRUE((*made)->fold_states(inputs, outputs, kMany).ok());
  for (const Target target : kTargets) {
    Machine machine(target);
    const uint64_t mean = machine.add("mean", running_mean), var = machine.add("var", running_var);
    machine.run_each("batch_norm", "bn_running", kChannels, machine.add("means", means), machine.add("vars", vars),
                     mean, var, kMany, kChannels, 0.1, machine.add("flags", std::vector<uint32_t>{0}));
    EXPECT_TRUE(same_bits(machine.read<float>(mean, kChannels), cpu_mean));
    EXPECT_TRUE(same_bits(machine.read<float>(var, kChannels), cpu_var));
    machine.run_each("batch_norm", "bn_running", kChannels, machine.add("more", vars), machine.add("most", vars), mean,
                     var, kMany, kChannels, 0.1, machine.add("skips", std::vector<uint32_t>{4}));
    EXPECT_TRUE(same_bits(machine.read<float>(mean, kChannels), cpu_mean));
    EXPECT_TRUE(same_bits(machine.read<float>(var, kChannels), cpu_var));
  }
}

TEST(GpuBatchNorm, SumsOfColumnsHaveTheBitsOfTheProcessor) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    constexpr int64_t kTall = 600, kWide = 37;
    const TensorType type = type_of({kBatch, kWide}, dtype);
    const Raw dy = numbers(dtype, random_floats(kTall * kWide, 9));
    std::vector<Raw> results{raw(random_floats(kWide, 10))};
    const Raw before = results[0];
    run_cpu("bias.grad", {.attrs = {}, .rows = kTall, .inputs = {type}, .outputs = {type_of({kWide})}}, {dy}, results);
    for (const ptx::Order order : ptx::kOrders) {
      Machine machine(kTargets[1], order);
      const uint64_t sums = machine.add("sums", before);
      machine.run("column_sums", dtype == DType::kF32 ? "column_sums_f32" : "column_sums_bf16", {2, 1, 1}, {32, 8, 1},
                  machine.add("dy", dy), sums, kTall, kWide);
      EXPECT_TRUE(same(DType::kF32, machine.read<std::byte>(sums, before.size()), results[0]));
    }
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
