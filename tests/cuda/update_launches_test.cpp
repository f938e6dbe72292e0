// The end of a step on GPUs of the fake driver has the bits of processors: weights, states of optimizers, running means
// of weights and running statistics, from equal gradients.
#include "runtime/device/cuda/update_launches.h"

#include <cstring>
#include <gmock/gmock.h>

#include "ops/jit/compiler.h"
#include "tests/cuda/end_of_step.h"

namespace xrun::cuda {
namespace {

// A model with batch norm, biases, and a tensor of several thread blocks and sums of squares.
std::string text_of(const std::string& settings, const std::string& declarations = "") {
  return "xgraph 1\n" + declarations +
         "model m {\n  input x: f32[N, 90]\n\n  y = x -> linear(60) -> bn -> relu -> linear(6)\n  output y\n}\n"
         "data d {\n  source train = synthetic([90], 6, 640)\n\n  x = pixels\n}\n"
         "train t {\n  batch     = 16\n  norm_rows = 4\n  epochs    = 1\n  loss      = softmax_ce(y, label)\n"
         "  lr        = 0.1\n" +
         settings + "}\n";
}

// An optimizer with norms in two levels and functions of norms other than sums and quotients.
constexpr const char* kOwn = R"(
optimizer own(weight_decay: float = 0.01) {
  state m = 0

  g      = grad + weight_decay * weight
  n      = norm(g)
  part   = g / (n + 1e-6)
  q      = norm(part + weight)
  m      = 0.9 * m + part * sqrt(n) * max(q, 0.5)
  weight = weight - lr * m
}
)";

const PlanChoice kOneDevice{.micro_batches = 2};
const PlanChoice kTwoReplicas{.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 2};

void expect_equal_bits(const EndOfStep& got, const EndOfStep& expected, const std::string& where) {
  const auto a = got.kept(), b = expected.kept();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].first, b[i].first);
    ASSERT_EQ(a[i].second.size(), b[i].second.size());
    for (size_t e = 0; e < a[i].second.size(); ++e) {
      ASSERT_EQ(std::memcmp(&a[i].second[e], &b[i].second[e], sizeof(float)), 0)
          << where << ": element " << e << " of " << a[i].first << " is " << a[i].second[e] << " on the GPU and "
          << b[i].second[e] << " on the processor";
    }
  }
}

// The end of a step of one module, on processors and on GPUs.
struct Pair {
  explicit Pair(const xrun::Module& module, const PlanChoice& choice, bool with_passes = true)
      : for_cpus(runtime::testing::prepare_for(module, ops::Isa::kAvx2)),
        for_gpus(runtime::testing::prepare_for_gpus(module)),
        expected(for_cpus, choice, nullptr),
        driver({.gpus = choice.devices, .memory = 16 << 20, .seed = 5}) {
    must(start_driver(driver.table()));
    got = std::make_unique<EndOfStep>(for_gpus, choice, &driver.table(), with_passes);
  }

  // Runs a step on both, and compares all that it changes.
  void step(int64_t number, const Gradients& with = {}) {
    const double rate = 0.1 / static_cast<double>(number + 1);
    const Status on_cpu = expected.step(number, rate, with), on_gpu = got->step(number, rate, with);
    ASSERT_TRUE(on_cpu.ok()) << on_cpu.error().message;
    ASSERT_TRUE(on_gpu.ok()) << on_gpu.error().message;
    expect_equal_bits(*got, expected, "step " + std::to_string(number));
    EXPECT_EQ(got->backend().grad_norm(), expected.backend().grad_norm());
    EXPECT_EQ(got->backend().skipped(), expected.backend().skipped());
  }
  // Destroys the devices, and returns the faults.
  std::string finish() {
    got.reset();
    return print(driver.faults());
  }

  Prepared for_cpus;
  Prepared for_gpus;
  EndOfStep expected;
  fake::FakeDriver driver;
  std::unique_ptr<EndOfStep> got;
};

void compare(const xrun::Module& module, const PlanChoice& choice, bool with_passes = true) {
  SCOPED_TRACE(choice.text());
  Pair pair(module, choice, with_passes);
  for (int64_t step = 0; step < 2; ++step) {
    pair.step(step);
  }
  EXPECT_EQ(pair.finish(), "");
}

bool needs_compiler(const std::string& optimizer) {
  return optimizer.starts_with("own") || optimizer.starts_with("la");
}

class UpdateLaunches : public ::testing::TestWithParam<const char*> {};

TEST_P(UpdateLaunches, HaveTheBitsOfProcessors) {
  const std::string optimizer = GetParam();
  if (needs_compiler(optimizer) && ops::open_jit().compiler.empty()) {
    GTEST_SKIP() << "there is no compiler of loops";
  }
  for (const char* settings : {"", "  clip      = norm(0.5)\n", "  clip      = value(0.3)\n", "  ema       = 0.9\n"}) {
    SCOPED_TRACE(settings);
    const xrun::Module module =
        module_of(text_of("  optimizer = " + optimizer + "\n" + settings, optimizer == "own" ? kOwn : ""));
    compare(module, kOneDevice);
    compare(module, kTwoReplicas);
  }
}

// Rows of the table with a gradient of zero keep their numbers.
TEST_P(UpdateLaunches, UpdateOnlyRowsWithAGradient) {
  const std::string optimizer = GetParam();
  if (needs_compiler(optimizer) && ops::open_jit().compiler.empty()) {
    GTEST_SKIP() << "there is no compiler of loops";
  }
  const xrun::Module module = module_of(
      std::string("xgraph 1\n") + (optimizer == "own" ? kOwn : "") +
      "model m {\n  input ids: index(50)[N, 6]\n\n  y = ids -> embed_bag(50, 12) -> linear(6)\n  output y\n}\n"
      "data d {\n  source train = text(\"train.tsv\")\n\n  ids   = text -> ngrams(50, 6, chars=[1, 3], words=1)\n"
      "  label = label -> as_index(6)\n}\n"
      "train t {\n  batch     = 16\n  norm_rows = 4\n  epochs    = 1\n  loss      = softmax_ce(y, label)\n"
      "  lr        = 0.1\n  ema       = 0.9\n  optimizer = " +
      optimizer + "\n}\n");
  compare(module, kOneDevice, false);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, UpdateLaunches,
                         ::testing::Values("sgd", "sgd(momentum=0.9, weight_decay=1e-3)",
                                           "sgd(momentum=0.9, nesterov=true)", "adamw(weight_decay=0.05)",
                                           "lars(weight_decay=1e-3)", "lamb", "own"));

TEST(EndOfAStep, SumsOfMoreReplicasThanALaunchAddsHaveTheBitsOfProcessors) {
  xrun::Module module = module_of(text_of("  optimizer = sgd\n  clip      = norm(0.5)\n"));
  module.train.batch = 72;
  compare(module, {.devices = 18, .threads = 18, .replicas = 18, .micro_batches = 18, .deterministic = false});
}

TEST(EndOfAStep, GradientsOfTiedWeightsAreAdded) {
  const xrun::Module module = module_of(
      "xgraph 1\nmodel m {\n  input x: f32[N, 20]\n  param mix: [20, 20] = he_normal()\n\n"
      "  a = x -> matmul(mix) -> relu -> linear(20) -> relu\n  y = a -> matmul(mix) -> relu -> linear(6)\n  output "
      "y\n}\n"
      "data d {\n  source train = synthetic([20], 6, 640)\n\n  x = pixels\n}\n"
      "train t {\n  batch     = 16\n  norm_rows = 4\n  epochs    = 1\n  loss      = softmax_ce(y, label)\n"
      "  lr        = 0.1\n  optimizer = adamw\n}\n");
  const PlanChoice choice{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2};
  Pair pair(module, choice);
  EXPECT_GT(pair.got->count(Kind::kSumTied), 0);
  pair.step(0);
  EXPECT_EQ(pair.finish(), "");
}

TEST(EndOfAStep, PreparedWeightsAreThoseOfTheUpdatedWeights) {
  Pair pair(module_of(text_of("  optimizer = sgd\n  precision = mixed(bf16)\n")), kOneDevice);
  pair.step(0);
  EXPECT_TRUE(pair.got->is_prepared());
  EXPECT_EQ(pair.finish(), "");
}

TEST(EndOfAStep, AGradientThatIsNotFiniteSkipsTheStepIfALowerScaleMayHelp) {
  xrun::Module module = module_of(text_of("  optimizer = adamw\n  clip      = norm(0.5)\n  ema       = 0.9\n"));
  module.train.loss_scale = {.kind = LossScaleSpec::kDynamic};
  for (const PlanChoice& choice : {kOneDevice, kTwoReplicas}) {
    Pair pair(module, choice);
    pair.step(0, {.loss_scale = 1024});
    EXPECT_FALSE(pair.got->backend().skipped());
    const auto before = pair.got->kept();
    pair.step(1, {.loss_scale = 1024, .first = INFINITY});
    EXPECT_TRUE(pair.got->backend().skipped());
    EXPECT_EQ(pair.got->kept(), before);
    pair.step(2, {.loss_scale = 512});
    EXPECT_FALSE(pair.got->backend().skipped());
    EXPECT_NE(pair.got->kept(), before);
    EXPECT_EQ(pair.finish(), "");
  }
}

TEST(EndOfAStep, AGradientThatIsNotFiniteChangesNothingAndIsAnError) {
  const std::string clip = "  clip      = norm(0.5)\n";
  for (const std::string optimizer : {"sgd(momentum=0.9)", "lamb"}) {
    if (needs_compiler(optimizer) && ops::open_jit().compiler.empty()) {
      continue;
    }
    Pair pair(module_of(text_of("  optimizer = " + optimizer + "\n" + clip)), kTwoReplicas);
    const auto before = pair.got->kept();
    const Status on_cpu = pair.expected.step(0, 0.1, {.first = NAN}), on_gpu = pair.got->step(0, 0.1, {.first = NAN});
    ASSERT_FALSE(on_cpu.ok());
    ASSERT_FALSE(on_gpu.ok());
    EXPECT_EQ(on_gpu.error().code, on_cpu.error().code);
    EXPECT_EQ(pair.got->kept(), before);
    EXPECT_TRUE(pair.got->step(1, 0.1).ok()) << "the flag word was not cleared";
    EXPECT_NE(pair.got->kept(), before);
    EXPECT_EQ(pair.finish(), "");
  }
}

}  // namespace
}  // namespace xrun::cuda
