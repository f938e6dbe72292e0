// Programs on GPUs of the fake driver, which executes the PTX of their kernels, compared with processors.
#include "runtime/device/cuda/cuda_backend.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "tests/cuda/end_of_step.h"
#include "tests/cuda/gpu_run.h"

namespace xrun::cuda {
namespace {

const ModelOptions kDense{.layers = 2, .input = 8, .width = 16, .classes = 6, .batch = 16, .norm_rows = 4};

// Products of GPUs sum in another order than those of processors.
void expect_near(const std::vector<float>& got, const std::vector<float>& expected, float tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance * std::fmax(1.0F, std::fabs(expected[i]))) << "row " << i;
  }
}

TEST(CudaBackend, ForwardPassesHaveTheLogitsOfProcessors) {
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    ModelOptions options = kDense;
    options.precision = precision;
    const auto expected = run_on_processors(options, 2, false);
    ASSERT_TRUE(expected.ok()) << expected.error().message;
    std::vector<float> first;
    for (const PlanChoice& choice :
         {PlanChoice{}, PlanChoice{.micro_batches = 2}, PlanChoice{.devices = 2, .stages = 2, .micro_batches = 4},
          PlanChoice{.devices = 2, .replicas = 2, .micro_batches = 2}}) {
      const auto got = run_on_gpus(options, choice, 2, {.capability = 90, .seed = 3}, false);
      ASSERT_TRUE(got.ok()) << choice.text() << ": " << got.error().message;
      expect_near(got->losses, expected->losses, precision == PrecisionMode::kF32 ? 1e-5F : 2e-2F);
      first = first.empty() ? got->losses : first;
      EXPECT_EQ(got->losses, first) << choice.text() << ": a plan has other bits";
    }
  }
}

TEST(CudaBackend, AValueThatIsNotFiniteIsReportedWithItsMicroBatch) {
  RunInputs inputs = inputs_of(kDense);
  inputs.fill = [fill = inputs.fill](const Graph& graph, const runtime::BatchView& slot, int step) {
    fill(graph, slot, step);
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      if (graph.inputs[i].name == "x") {
        reinterpret_cast<float*>(slot.inputs[i])[kDense.batch * kDense.input - 1] = NAN;
      }
    }
  };
  const auto failed = train_on_gpus(make_module(kDense), inputs, {.micro_batches = 2}, 1, {.capability = 90});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, "XG0810");
  EXPECT_EQ(failed.error().message,
            "`loss` (softmax_ce) gives a value that is not finite, for micro-batch 1 in step 1, on device 0");
}

TEST(CudaBackend, ANumberWithoutARowIsReported) {
  const Module module = module_of(
      "xgraph 1\nmodel m {\n  input ids: index(50)[N, 6]\n\n  y = ids -> embed_bag(50, 12) -> linear(6)\n  output "
      "y\n}\n"
      "data d {\n  source train = text(\"train.tsv\")\n\n  ids   = text -> ngrams(50, 6, chars=[1, 3], words=1)\n"
      "  label = label -> as_index(6)\n}\n"
      "train t {\n  batch     = 16\n  norm_rows = 4\n  epochs    = 1\n  loss      = softmax_ce(y, label)\n"
      "  optimizer = sgd\n  lr        = 0.1\n}\n");
  const RunInputs inputs{.fill = [](const Graph& graph, const runtime::BatchView& slot, int /*step*/) {
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      const int64_t each = graph.inputs[i].name == "ids" ? 6 : 1;
      std::fill_n(reinterpret_cast<int32_t*>(slot.inputs[i]), 16 * each, each == 6 ? 50 : 1);
    }
  }};
  const auto failed = train_on_gpus(module, inputs, {}, 1, {.capability = 80});
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().code, "XG0402");
  EXPECT_EQ(failed.error().message, "a number has no row in a table of `embed` or `embed_bag` in step 1");
}

TEST(CudaBackend, APlanForProcessorsIsRefused) {
  const Prepared prepared = runtime::testing::prepare_for(make_module(kDense));
  const planner::Program program = make_program(prepared, {}, false).value();
  fake::FakeDriver driver;
  must(start_driver(driver.table()));
  auto devices = must(make_cuda_devices(driver.table(), std::vector<int>{0}));
  const auto refused = runtime::Session::create(prepared.inference, program, *devices, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "XG0625");
  EXPECT_EQ(refused.error().message, "the plan is for processors, but its devices are GPUs");
}

}  // namespace
}  // namespace xrun::cuda
