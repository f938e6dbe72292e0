// Runs in `mixed(f16)`: steps whose gradients leave the range of f16 make no update, the scale of the loss halves, and
// checkpoints keep it. Which steps are skipped is a result like any other: equal for every plan, and for a run that was
// stopped and resumed.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "tests/runtime/runs/compressed_runs.h"
#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

using testing::compressed_module;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::make_module;
using testing::make_program;
using testing::MemoryStore;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;
using testing::Running;
using testing::RunsTest;
using testing::start;
using testing::values_of;

constexpr LossScaleSpec dynamic(double first) { return {.kind = LossScaleSpec::kDynamic, .first = first}; }

ModelOptions in_f16(bool head, double first_scale = 65536) {
  ModelOptions options{.layers = 2, .classes = head ? 150 : 10, .head = head, .skips = true};
  options.precision = PrecisionMode::kMixedF16;
  options.loss_scale = dynamic(first_scale);
  return options;
}

// All weights, running statistics and states, as bytes.
std::map<std::string, std::vector<std::byte>> contents(const TrainState& state) {
  std::map<std::string, std::vector<std::byte>> all;
  for (const StateTensor& tensor : state.tensors()) {
    auto& bytes = all[tensor.name];
    bytes.resize(static_cast<size_t>(tensor.rows() * tensor.row_bytes()));
    state.read_rows(tensor, 0, tensor.rows(), bytes.data());
  }
  return all;
}

TEST(LossScaleRuns, AnOverflowChangesNothingButTheScale) {
  for (const bool compressed : {false, true}) {
    for (const bool head : {false, true}) {
      for (const ClipSpec clip : {ClipSpec{}, ClipSpec{ClipSpec::kNorm, 0.3, head}}) {
        SCOPED_TRACE(std::to_string(compressed) + std::to_string(head) + std::to_string(clip.kind));
        ModelOptions options = in_f16(head, kLargestLossScale);
        options.clip = clip;
        CompressSpec compress;
        compress.density = compressed ? 0.1 : 0;
        const Prepared prepared = prepare_for(compressed_module(options, compress));
        for (const PlanChoice& choice :
             {PlanChoice{},
              PlanChoice{.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
          const auto running = start(prepared, options, choice);
          const auto before = contents(running->session->state());
          running->steps(0, 1);
          EXPECT_TRUE(contents(running->session->state()) == before) << choice.text();
          EXPECT_EQ(running->session->state().loss_scale(), (LossScale{kLargestLossScale / 2, 0, 1}));
          running->steps(1, 30);
          const LossScale& scale = running->session->state().loss_scale();
          EXPECT_GT(scale.good_steps, 5) << "the scale fell to " << scale.scale;
          EXPECT_EQ(scale.scale, std::ldexp(kLargestLossScale, -static_cast<int>(scale.skipped_steps)));
          EXPECT_FALSE(contents(running->session->state()) == before);
        }
      }
    }
  }
}

// The first update moves each weight by the rate if the means of the gradient are corrected for one update, although
// several steps went before it.
TEST(LossScaleRuns, SkippedStepsDoNotCountInTheBiasCorrection) {
  for (const bool head : {false, true}) {
    ModelOptions options = in_f16(head, kLargestLossScale);
    options.optimizer = "adamw";
    options.arguments = {{"weight_decay", 0.0}};
    options.rate = 0.01;
    const Prepared prepared = prepare_for(make_module(options));
    const auto running = start(prepared, options, {});
    const std::string weight = head ? "id.weight" : "out.weight";
    const std::vector<float> before = values_of(running->session->state(), weight);
    int64_t step = 0;
    while (running->session->state().loss_scale().good_steps == 0) {
      ASSERT_LT(step, 32);
      running->steps(step, step + 1);
      ++step;
    }
    ASSERT_GT(running->session->state().loss_scale().skipped_steps, 2);
    const std::vector<float> after = values_of(running->session->state(), weight);
    double largest = 0;
    for (size_t i = 0; i < before.size(); ++i) {
      largest = std::max(largest, static_cast<double>(std::fabs(after[i] - before[i])));
    }
    EXPECT_NEAR(largest, options.rate, 1e-3 * options.rate);
  }
}

// A power of two changes no bit of a gradient that stays within the range of f16.
TEST(LossScaleRuns, ScalesWithoutOverflowsGiveEqualUpdates) {
  for (const ClipSpec clip : {ClipSpec{}, ClipSpec{ClipSpec::kValue, 0.01}}) {
    std::set<std::vector<float>> weights;
    for (const double scale : {4096.0, 8192.0}) {
      ModelOptions options = in_f16(false);
      options.loss_scale = {.kind = LossScaleSpec::kFixed, .first = scale};
      options.clip = clip;
      const Prepared prepared = prepare_for(make_module(options));
      const auto running = start(prepared, options, {});
      running->steps(0, 1);
      weights.insert(values_of(running->session->state(), "out.weight"));
    }
    EXPECT_EQ(weights.size(), 1U) << clip.kind;
  }
}

TEST(LossScaleRuns, ValuesTakeTwoBytes) {
  const auto bytes_of = [](PrecisionMode precision) {
    ModelOptions options = in_f16(true);
    options.precision = precision;
    const planner::Program program = make_program(prepare_for(make_module(options)), {}).value();
    Bytes sum = 0;
    for (const planner::Buffer& buffer : program.buffers) {
      sum += buffer.purpose == planner::Purpose::kActivation ? buffer.bytes : 0;
    }
    return sum;
  };
  EXPECT_EQ(bytes_of(PrecisionMode::kMixedF16), bytes_of(PrecisionMode::kMixedBf16));
  EXPECT_LT(bytes_of(PrecisionMode::kMixedF16), bytes_of(PrecisionMode::kF32));
}

// Senders of compressed gradients change their states only if the gradients of all senders are finite.
TEST(LossScaleRuns, PlansWithEquallyManySendersSkipTheSameSteps) {
  ModelOptions options = in_f16(true, kLargestLossScale);
  for (const bool per_node : {false, true}) {
    const CompressSpec compress{.density = 0.05, .on = {}, .per_node = per_node};
    const Prepared prepared = prepare_for(compressed_module(options, compress));
    for (const int senders : {1, 2}) {
      std::optional<std::string> weights;
      std::optional<LossScale> scale;
      for (const int stages : {1, 2}) {
        for (const int micro_batches : {4, 12}) {
          const int replicas = per_node ? 2 * senders : senders;
          const PlanChoice choice{.devices = replicas * stages,
                                  .threads = replicas * stages * (micro_batches == 4 ? 1 : 2),
                                  .stages = stages,
                                  .replicas = replicas,
                                  .micro_batches = micro_batches,
                                  .shards = stages + 1,
                                  .overlap = micro_batches == 4,
                                  .nodes = per_node ? senders : 1};
          const auto running = start(prepared, options, choice, micro_batches == 12);
          running->steps(0, 24);
          const TrainState& state = running->session->state();
          weights = weights.value_or(state.weights_digest());
          scale = scale.value_or(state.loss_scale());
          EXPECT_EQ(state.weights_digest(), *weights) << choice.text();
          EXPECT_TRUE(state.loss_scale() == *scale) << choice.text();
          EXPECT_GT(state.loss_scale().good_steps, 0);
        }
      }
    }
  }
}

class LossScaleTraining : public RunsTest {
 protected:
  void prepare(const ModelOptions& options) {
    options_ = options;
    prepared_ = prepare_for(make_module(options_));
  }
};

TEST_F(LossScaleTraining, ReportsTheScaleAndTheStepsThatMadeNoUpdate) {
  prepare(in_f16(false, kLargestLossScale));
  ASSERT_TRUE(train_with(nullptr, 2).ok());
  ASSERT_EQ(events_.steps.size(), 2U);
  EXPECT_EQ(events_.steps[0].loss_scale, kLargestLossScale);
  EXPECT_EQ(events_.steps[0].skipped_steps, 1);
  EXPECT_EQ(events_.steps[1].loss_scale, kLargestLossScale / 2);
  EXPECT_THAT(events_.notes, Contains(HasSubstr("step 1 made no update")));
  EXPECT_THAT(events_.notes, Contains(HasSubstr("the scale of the loss is now 2147483648")));
}

TEST_F(LossScaleTraining, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  for (const int64_t stop : {2, 5, 30}) {
    SCOPED_TRACE(stop);
    ModelOptions options = in_f16(true, kLargestLossScale);
    options.steps = 40;
    options.optimizer = "adamw";
    options.arguments = {{"weight_decay", 0.01}};
    options.rate = 0.01;
    prepare(options);
    choice_ = {};
    MemoryStore at_end;
    const auto whole = train_with(&at_end, -1);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    ASSERT_GT(at_end.loss_scale.skipped_steps, 3);
    MemoryStore store;
    ASSERT_TRUE(train_with(&store, stop).ok());
    choice_ = {.devices = 2, .threads = 3, .replicas = 2, .micro_batches = 4, .shards = 3};
    const auto rest = train_with(&store, -1);
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->weights, whole->weights);
    EXPECT_EQ(store.loss_scale, at_end.loss_scale);
    EXPECT_TRUE(store.tensors == at_end.tensors);
  }
}

TEST_F(LossScaleTraining, AFixedScaleThatIsTooLargeIsAnError) {
  ModelOptions options = in_f16(false);
  options.loss_scale = {.kind = LossScaleSpec::kFixed, .first = kLargestLossScale};
  prepare(options);
  const auto outcome = train_with(nullptr, 2);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, "XG0810");
  EXPECT_THAT(outcome.error().help, HasSubstr("whose scale adapts"));
  EXPECT_THAT(outcome.error().notes, Contains(HasSubstr("the loss is scaled by")));
}

TEST_F(LossScaleTraining, GradientsThatAreNotFiniteWithTheSmallestScaleAreAnError) {
  prepare(in_f16(false, 4));
  Module module = make_module(options_);
  module.train.loss[0].factor = 1e12;
  prepared_ = prepare_for(std::move(module));
  const auto outcome = train_with(nullptr, 6);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, "XG0810");
  EXPECT_THAT(outcome.error().message, HasSubstr("in step 3"));
  EXPECT_THAT(outcome.error().notes, Contains(HasSubstr("has fallen to 1")));
}

TEST_F(LossScaleTraining, TheLossFallsAsInF32) {
  std::vector<double> losses;
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedF16}) {
    ModelOptions options = in_f16(true);
    options.precision = precision;
    options.steps = 20;
    prepare(options);
    const auto outcome = train_with(nullptr, -1);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    losses.push_back(outcome->loss);
  }
  EXPECT_NEAR(losses[0], losses[1], 0.02 * losses[0]);
}

}  // namespace
}  // namespace xrun::runtime
