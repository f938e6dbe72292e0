// Checks for a real GPU (`scripts/gpu_check.sh`): its results are compared with those of the PTX machine and of
// processors. On machines without a GPU they run with fewer cases on the fake driver, which proves only that the checks
// themselves work.
#include <cstdlib>
#include <gtest/gtest.h>

#include "tests/cuda/driver_device.h"
#include "tests/cuda/gpu_run.h"
#include "tests/ops/gpu/launch/case_runs.h"
#include "tests/runtime/runs/model_files.h"
#include "tests/runtime/runs/plan_product.h"

namespace xrun::cuda {
namespace {

using ops::gpu::GpuKernel;
using ops::gpu::GpuSpec;
using ops::gpu::NodeRun;
using ops::gpu::Raw;
using runtime::testing::Case;

// The driver of this machine, or the fake one.
class Card : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto real = open_driver();
    is_real_ = real.ok();
    driver_ = is_real_ ? std::move(real).value() : must(open_driver(XRUN_FAKE_DRIVER));
    const auto context = must(Context::open(driver_, 0));
    capability_ = context->capability();
  }
  void SetUp() override { RecordProperty("gpu", is_real_ ? "the GPU of this machine" : "the fake driver"); }

  static ops::gpu::Target target() { return ops::gpu::kTargets[capability_ >= 90 ? 1 : 0]; }

  static inline DriverTable driver_;
  static inline bool is_real_ = false;
  static inline int capability_ = 0;
};

// Products on tensor cores follow a model of an H100 that was published; other generations may differ in the last bits.
void compare(const NodeRun& run, const Raw& card, const Raw& machine, bool exact, size_t output) {
  const DType dtype = run.outputs[output].type.dtype;
  if (exact) {
    EXPECT_EQ(card, machine) << "output " << output;
    return;
  }
  double distance = 0, size = 0;
  const auto width = static_cast<size_t>(size_of(dtype));
  for (size_t at = 0; at < card.size(); at += width) {
    const auto number = [&](const Raw& raw) {
      return static_cast<double>(dtype == DType::kBF16
                                     ? ops::to_float(*reinterpret_cast<const ops::Bf16*>(raw.data() + at))
                                     : *reinterpret_cast<const float*>(raw.data() + at));
    };
    distance += (number(card) - number(machine)) * (number(card) - number(machine));
    size += number(machine) * number(machine);
  }
  EXPECT_LE(std::sqrt(distance), std::sqrt(size) * (dtype == DType::kBF16 ? 4e-3 : 1e-6)) << "output " << output;
}

bool uses_tensor_cores(const NodeRun& run) {
  const std::string_view op = run.op->name;
  const bool sums = op.starts_with("linear") || op.starts_with("conv") || op.starts_with("matmul") ||
                    op.starts_with("einsum") || op.starts_with("attention");
  return sums && std::ranges::any_of(run.inputs, [](const auto& input) { return input.type.dtype == DType::kBF16; });
}

TEST_F(Card, OperatorsHaveTheBitsOfThePtxMachine) {
  const auto cases = ops::gpu::cases_with_launches();
  const auto context = must(Context::open(driver_, 0));
  int compared = 0;
  for (size_t i = 0; i < cases.size(); i += is_real_ ? 1 : 40) {
    const auto [index, dtype] = cases[i];
    ops::gpu::for_each_run(index, dtype, [&](const NodeRun& before, const NodeRun& /*after*/) {
      SCOPED_TRACE(std::string(before.op->name) + " " + to_text(before.spec.attrs) + " " + std::string(name_of(dtype)));
      GpuSpec spec{.op = before.op,
                   .node = before.spec,
                   .target = ops::gpu::gpu_target(target()),
                   .most_blocks = ops::gpu::kBlocks};
      spec.node.compile = true;
      const auto kernel = make_gpu_kernel(spec);
      if (!kernel.ok()) {
        return;
      }
      DriverDevice device(*context);
      const auto card = ops::gpu::run_on_gpu(before, **kernel, device);
      const auto machine = ops::gpu::run_on_gpu(before, **kernel, target(), ptx::Order::kFair);
      ASSERT_TRUE(card.has_value() && machine.has_value());
      for (size_t output = 0; output < card->outputs.size(); ++output) {
        compare(before, card->outputs[output], machine->outputs[output], !uses_tensor_cores(before), output);
      }
      EXPECT_EQ(card->folded, machine->folded);
      ++compared;
    });
    if (HasFatalFailure()) {
      return;
    }
  }
  RecordProperty("operators", compared);
  EXPECT_GT(compared, is_real_ ? 200 : 5);
}

// Trains digits on the GPU, and on two devices that are this GPU.
TEST_F(Card, DigitsHasTheLossesOfProcessors) {
  const runtime::testing::ModelFile file{.path = "models/digits.xgraph", .precision = "mixed(bf16)"};
  const Module module = runtime::testing::load_module(file);
  const RunInputs inputs{.rate = 0.1, .fill = [&](const Graph& graph, const runtime::BatchView& slot, int step) {
                           runtime::testing::fill(graph, file, slot, static_cast<uint64_t>(step));
                         }};
  const int steps = is_real_ ? 20 : 1;
  const auto expected = train_on_processors(module, inputs, steps);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  const auto one = train_with(driver_, {0}, module, inputs, {}, steps);
  ASSERT_TRUE(one.ok()) << one.error().message;
  const auto two = train_with(driver_, {0, 0}, module, inputs, {.devices = 2, .stages = 2, .micro_batches = 2}, steps);
  ASSERT_TRUE(two.ok()) << two.error().message;
  EXPECT_EQ(one->digest, two->digest);
  for (size_t i = 0; i < expected->losses.size(); ++i) {
    ASSERT_NEAR(one->losses[i], expected->losses[i], 2e-2F * std::max(1.0F, expected->losses[i])) << "row " << i;
  }
}

TEST_F(Card, PlansHaveOneDigest) {
  if (!is_real_) {
    GTEST_SKIP() << "there is no GPU; tests/cuda/gpu_models_test.cpp has this check for the fake driver";
  }
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    const ModelOptions options = runtime::testing::hard_model(precision);
    std::vector<Case> cases = runtime::testing::all_cases(options, {precision});
    std::erase_if(cases, [](const Case& one) { return one.choice.threads != one.choice.devices; });
    cases = runtime::testing::cover_pairs(std::move(cases), 0, 53);
    std::string digest;
    for (const Case& one : cases) {
      const std::vector<int> gpus(static_cast<size_t>(one.choice.devices), 0);
      const auto got = train_with(driver_, gpus, make_module(options), inputs_of(options), one.choice, 3);
      ASSERT_TRUE(got.ok()) << one.choice.text() << ": " << got.error().message;
      digest = digest.empty() ? got->digest : digest;
      ASSERT_EQ(got->digest, digest) << one.choice.text();
    }
  }
}

}  // namespace
}  // namespace xrun::cuda
