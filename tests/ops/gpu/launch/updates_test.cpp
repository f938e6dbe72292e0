// Launches of updates on the PTX machine have the bits of the processor's updates: tables of tensors for sgd and adamw,
// and one launch a tensor for all other rules.
#include "ops/gpu/launch/updates.h"

#include "ops/gpu/launch/gradient_launches.h"
#include "ops/optimizer/update_norms.h"
#include "tests/ops/gpu/launch/launch_runner.h"
#include "tests/support/optimizers.h"

namespace xrun::ops::gpu {
namespace {

// A weight tensor with its gradient, states and running mean, in the memory of the processor.
struct Tensor {
  int64_t elements;
  std::vector<float> gradient;
  std::vector<std::vector<float>> kept;  // weight, states, mean
};

Tensor tensor_of(int64_t elements, const OptimizerForm& form, uint64_t seed) {
  const auto count = static_cast<size_t>(elements);
  Tensor made{.elements = elements, .gradient = random_floats(count, seed), .kept = {random_floats(count, seed + 1)}};
  for (int i = 0; i < form.kept_states(); ++i) {
    std::vector<float> state = random_floats(count, seed + 2 + static_cast<uint64_t>(i));
    std::ranges::transform(state, state.begin(), [](float x) { return std::fabs(x); });
    made.kept.push_back(std::move(state));
  }
  return made;
}

void update_on_processor(const OptimizerForm& form, const UpdateScalars& scalars, Tensor& tensor) {
  const ComputeModes modes;
  UpdateStates states{};
  for (size_t i = 1; i < tensor.kept.size(); ++i) {
    states[i - 1] = tensor.kept[i].data();
  }
  update(Isa::kAvx2, form, scalars, tensor.kept[0].data(), tensor.gradient.data(), states, tensor.elements);
}

const std::vector<CallSpec>& known_optimizers() {
  static const std::vector<CallSpec> calls{
      test::optimizer("sgd", {{"momentum", 0.0}}), test::optimizer("sgd", {{"momentum", 0.9}}),
      test::optimizer("sgd", {{"momentum", 0.9}, {"nesterov", true}}), test::optimizer("adamw")};
  return calls;
}

// Tensors of one, of several and of no complete thread block, with different scalars.
TEST(GpuUpdateTables, OneLaunchUpdatesAllTensorsWithTheBitsOfTheProcessor) {
  for (const CallSpec& call : known_optimizers()) {
    for (const double ema : {0.0, 0.9}) {
      for (const Target target : kTargets) {
        const auto update = GpuUpdate::make(call, ema, gpu_target(target), true);
        ASSERT_TRUE(update.ok()) << update.error().message;
        ASSERT_TRUE(update->has_table());
        const OptimizerForm& form = update->form();
        Device device(target, ptx::Order::kReversed);
        std::vector<Tensor> tensors;
        std::vector<UpdateEntry> entries;
        std::vector<std::vector<uint64_t>> kept;
        for (const int64_t elements : {700, 1024, 2500, 1}) {
          const auto seed = static_cast<uint64_t>(10 * tensors.size());
          tensors.push_back(tensor_of(elements, form, seed));
          const UpdateScalars scalars = update_scalars(form, 0.1 * static_cast<double>(tensors.size()), 0.01,
                                                       tensors.size() % 2 == 0, 4, 0.5, 3.0);
          std::vector<uint64_t>& at = kept.emplace_back();
          for (const std::vector<float>& values : tensors.back().kept) {
            at.push_back(device.add("kept", raw(values)));
          }
          UpdateEntry& entry = entries.emplace_back();
          entry.weight = at[0];
          entry.gradient = device.add("gradient", raw(tensors.back().gradient));
          for (int i = 0; i < form.states; ++i) {
            entry.states[i] = at[static_cast<size_t>(1 + i)];
          }
          entry.mean = ema > 0 ? at.back() : 0;
          entry.scalars = device.add("scalars", raw(std::vector<KnownScalars>{scalars}));
          entry.elements = elements;
          entry.take = static_cast<float>(1 - ema);
          update_on_processor(form, scalars, tensors.back());
        }
        const int64_t blocks = number_blocks(entries);
        EXPECT_EQ(blocks, 1 + 1 + 3 + 1);
        const uint64_t table = device.add("table", raw(entries));
        ASSERT_TRUE(device.run({update->of_table(static_cast<int64_t>(entries.size()), blocks)},
                               {.inputs = std::span(&table, 1)}));
        for (size_t t = 0; t < tensors.size(); ++t) {
          for (size_t i = 0; i < kept[t].size(); ++i) {
            const Raw now = device.read(kept[t][i], tensors[t].kept[i].size() * sizeof(float));
            EXPECT_TRUE(same_bits(values_of<float>(now), tensors[t].kept[i])) << call.name << ", tensor " << t;
          }
        }
      }
    }
  }
}

// The norms of a tensor, from the launches of each level; they are also those of the processor.
std::vector<double> norms_of(const GpuUpdate& update, Device& device, const GpuCall& call, const Tensor& tensor,
                             UpdateScalars& scalars, uint64_t scalars_at) {
  const OptimizerForm& form = update.form();
  std::vector<double> norms(static_cast<size_t>(ops::norms_of(form)));
  UpdateStates states{};
  Tensor copy = tensor;
  for (size_t i = 1; i < copy.kept.size(); ++i) {
    states[i - 1] = copy.kept[i].data();
  }
  for (int level = 0; level < update.norm_levels(); ++level) {
    device.write(scalars_at, raw(std::vector<UpdateScalars>{scalars}));
    EXPECT_TRUE(device.run({update.of_norms(level, tensor.elements)}, call));
    std::vector<double> sums(norms.size(), NAN);
    {
      const ComputeModes modes;
      norm_squares(Isa::kAvx2, form, level, scalars, copy.kept[0].data(), copy.gradient.data(), states, tensor.elements,
                   sums);
    }
    int64_t place = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!std::isnan(sums[i])) {
        const Raw made = device.read(
            call.scratch + static_cast<uint64_t>(place++ * GpuUpdate::norm_bytes(tensor.elements)), sizeof(double));
        EXPECT_EQ(values_of<double>(made)[0], sums[i]) << "norm " << i;
        norms[i] = std::sqrt(sums[i]);
      }
    }
    set_norms(form, norms, scalars);
  }
  device.write(scalars_at, raw(std::vector<UpdateScalars>{scalars}));
  return norms;
}

TEST(GpuUpdateTables, OtherRulesUpdateOneTensorALaunchWithTheBitsOfTheProcessor) {
  if (open_jit().compiler.empty()) {
    GTEST_SKIP() << "there is no compiler of loops";
  }
  for (const char* name : {"lars", "lamb"}) {
    for (const double ema : {0.0, 0.9}) {
      const auto update = GpuUpdate::make(test::optimizer(name), ema, GpuTarget::kSm80, true);
      ASSERT_TRUE(update.ok()) << update.error().message;
      ASSERT_FALSE(update->has_table());
      const OptimizerForm& form = update->form();
      Tensor tensor = tensor_of(600, form, 77);
      Device device(kTargets[0], ptx::Order::kGreedy);
      UpdateScalars scalars = update_scalars(form, 0.1, 0.01, true, 4, 0.5);
      const uint64_t scalars_at = device.add("scalars", raw(std::vector<UpdateScalars>{scalars}));
      const std::vector<uint64_t> in{scalars_at, device.add("gradient", raw(tensor.gradient)),
                                     device.add("take", raw(std::vector<float>{static_cast<float>(1 - ema)}))};
      std::vector<uint64_t> out;
      for (const std::vector<float>& values : tensor.kept) {
        out.push_back(device.add("kept", raw(values)));
      }
      const GpuCall call{.inputs = in, .outputs = out, .scratch = device.add("sums", Bytes{8 * 256})};
      norms_of(*update, device, call, tensor, scalars, scalars_at);
      ASSERT_TRUE(device.run({update->of_tensor(tensor.elements)}, call));
      update_on_processor(form, scalars, tensor);
      for (size_t i = 0; i < out.size(); ++i) {
        const Raw now = device.read(out[i], tensor.kept[i].size() * sizeof(float));
        EXPECT_TRUE(same_bits(values_of<float>(now), tensor.kept[i])) << name << ", array " << i;
      }
    }
  }
}

TEST(GpuGradients, PartialsAreZeroedAddedAndChecked) {
  constexpr int64_t kCount = 300, kPart = 96;
  const std::vector<float> a = random_floats(kCount, 1), b = random_floats(kCount, 2);
  for (const Target target : kTargets) {
    const GpuTarget made_for = gpu_target(target);
    Device device(target, ptx::Order::kFair);
    const std::vector<uint64_t> in{device.add("a", raw(a))}, out{device.add("b", raw(b))};
    const uint64_t flags = device.add("flags", Raw(4));
    ASSERT_TRUE(device.run({add_launch(made_for, kCount), finite_launch(made_for, DType::kF32, kCount)},
                           {.inputs = in, .outputs = out, .flags = flags}));
    std::vector<float> sum(a.size());
    std::ranges::transform(b, a, sum.begin(), std::plus());
    EXPECT_TRUE(same_bits(values_of<float>(device.read(out[0], kCount * 4)), sum));
    EXPECT_EQ(values_of<uint32_t>(device.read(flags, 4))[0], 0u);

    const uint64_t squares = device.add("squares", Bytes{4 * 8}), scale = device.add("scale", Bytes{4});
    ASSERT_TRUE(
        device.run({squares_launch(made_for, kCount, kPart)}, {.inputs = in, .outputs = std::span(&squares, 1)}));
    ASSERT_TRUE(device.run({clip_launch(made_for, 4, 1, 0.5)},
                           {.inputs = std::span(&squares, 1), .outputs = std::span(&scale, 1), .flags = flags}));
    double total = 0;
    for (int64_t begin = 0; begin < kCount; begin += kPart) {
      total += sum_of_squares(Isa::kAvx2, a.data() + begin, std::min(kPart, kCount - begin));
    }
    EXPECT_EQ(values_of<float>(device.read(scale, 4))[0], static_cast<float>(0.5 / std::sqrt(total)));

    ASSERT_TRUE(device.run({zeros_launch(made_for, kCount)}, {.outputs = out}));
    EXPECT_EQ(values_of<float>(device.read(out[0], kCount * 4)), std::vector<float>(kCount, 0.0F));
  }
}

}  // namespace
}  // namespace xrun::ops::gpu
