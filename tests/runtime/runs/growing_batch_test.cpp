// Runs whose batch grows: every plan gives the same bits, each step equals a step of a run with that batch, and a
// stopped run can be resumed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/step_programs.h"
#include "runtime/train/clock/run_clock.h"
#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

using testing::make_module;
using testing::make_program;
using testing::MemoryStore;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;
using testing::Recorder;
using testing::SyntheticRows;

constexpr int64_t kSamples = 640;

// Returns a model with 16 to 64 samples per step. The plans have at least one, two, three or four micro-batches.
ModelOptions small() {
  ModelOptions options{.layers = 2, .classes = 333, .head = true, .skips = true, .dropout = 0.1};
  options.batch = 16;
  options.rate = 0.05;
  return options;
}

Prepared prepare_growing(const ModelOptions& options, int64_t times = 4) {
  Module module = make_module(options);
  module.train.growth = GrowthSpec{.first = options.batch,
                                   .times = times,
                                   .after = {0.25, TrainSpan::kEpochs},
                                   .over = {0.5, TrainSpan::kEpochs},
                                   .span = {}};
  module.train.batch *= times;
  module.train.duration = {1.5, TrainSpan::kEpochs};
  return prepare_for(module);
}

// The final state of a run and its events.
struct Ended {
  TrainOutcome outcome;
  Recorder events;
  std::vector<double> losses() const {
    std::vector<double> losses;
    for (const StepReport& step : events.steps) {
      losses.push_back(step.loss);
    }
    return losses;
  }
};

planner::Plan plan_of(const Prepared& prepared, const PlanChoice& choice) {
  planner::Plan plan;
  plan.machine =
      planner::make_machine({}, {.devices = choice.devices, .threads = choice.threads}, choice.threads, kGiB);
  plan.training = make_program(prepared, choice).value();
  const Status added = planner::add_step_programs(plan, prepared.module, prepared.training_facts);
  EXPECT_TRUE(added.ok()) << added.error().message;
  return plan;
}

Ended run_plan(const Prepared& prepared, const ModelOptions& options, const PlanChoice& choice,
               CheckpointStore* store = nullptr, int64_t steps = -1) {
  Ended run;
  const planner::Plan plan = plan_of(prepared, choice);
  const auto devices = make_cpu_devices(plan.training.threads);
  SyntheticRows rows(prepared.module.graph, options, kSamples);
  TrainRequest request{.module = prepared.module,
                       .training = plan.training,
                       .devices = *devices,
                       .batches = rows,
                       .checkpoints = store,
                       .events = run.events,
                       .session = {.isa = prepared.isa, .check_memory = true},
                       .steps = steps};
  for (const planner::StepProgram& one : plan.smaller) {
    request.smaller.push_back({one.units, &one.program, {}});
  }
  auto outcome = train(request);
  EXPECT_TRUE(outcome.ok()) << outcome.error().message;
  if (outcome.ok()) {
    run.outcome = std::move(outcome).value();
  }
  return run;
}

TEST(GrowingBatch, EveryPlanHasTheSameBits) {
  for (const PrecisionMode precision : {PrecisionMode::kF32, PrecisionMode::kMixedBf16}) {
    ModelOptions options = small();
    options.precision = precision;
    const Prepared prepared = prepare_growing(options);
    const Ended expected = run_plan(prepared, options, {.micro_batches = 4});
    const RunClock clock(prepared.module.train, kSamples);
    ASSERT_EQ(expected.outcome.step, clock.steps());
    ASSERT_GT(expected.events.steps.front().loss, expected.events.steps.back().loss);
    for (const PlanChoice& choice : std::vector<PlanChoice>{
             {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 4, .shards = 2},
             {.devices = 2,
             .threads = 3,
             .stages = 2,
             .micro_batches = 16,
             .pipeline = PipelineKind::kOneFOneB,
             .shards = 3},
             {.devices = 4, .threads = 4, .replicas = 2, .micro_batches = 8, .shards = 3},
             {.devices = 2, .threads = 2, .micro_batches = 16, .pipeline = PipelineKind::kOneFOneB, .recompute = true},
             {.threads = 2, .micro_batches = 16, .kept_blocks = 100}}) {
      const Ended other = run_plan(prepared, options, choice);
      EXPECT_EQ(other.outcome.weights, expected.outcome.weights) << choice.text();
      EXPECT_EQ(other.losses(), expected.losses()) << choice.text();
    }
  }
}

TEST(GrowingBatch, ReportsTheSizeOfEachStepAndTheEpochsSoFar) {
  const ModelOptions options = small();
  const Prepared prepared = prepare_growing(options);
  const Ended run = run_plan(prepared, options, {.micro_batches = 4});
  const RunClock clock(prepared.module.train, kSamples);
  int64_t samples = 0;
  std::vector<int64_t> sizes;
  for (const StepReport& step : run.events.steps) {
    samples += step.batch;
    EXPECT_DOUBLE_EQ(step.epoch, static_cast<double>(samples) / kSamples);
    EXPECT_EQ(samples, clock.samples_after(step.step));
    if (sizes.empty() || sizes.back() != step.batch) {
      sizes.push_back(step.batch);
    }
  }
  EXPECT_EQ(sizes, (std::vector<int64_t>{16, 32, 48, 64}));
  EXPECT_GE(samples, kSamples * 3 / 2);
}

// Starting from the growing run's state before a step, one step of a model with that batch must give the state after
// the step.
TEST(GrowingBatch, AStepEqualsAStepOfARunWithThatBatch) {
  for (const auto& [optimizer, arguments] :
       {std::pair<std::string, Attrs>{"sgd", {{"momentum", 0.9}}}, {"adamw", {}}, {"lars", {{"momentum", 0.9}}}}) {
    ModelOptions options = small();
    options.optimizer = optimizer;
    options.arguments = arguments;
    const Prepared prepared = prepare_growing(options);
    const RunClock clock(prepared.module.train, kSamples);
    for (const int64_t step : {int64_t{0}, int64_t{13}, clock.steps() - 2}) {
      MemoryStore before;
      MemoryStore after;
      run_plan(prepared, options, {.micro_batches = 4}, &before, step);
      run_plan(prepared, options, {.micro_batches = 4}, &after, step + 1);
      ModelOptions one = options;
      one.batch = clock.sizes().units_of(step) * options.batch;
      const Prepared alone = prepare_for(make_module(one));
      const planner::Program program = make_program(alone, {}).value();
      const auto devices = make_cpu_devices(program.threads);
      auto session = Session::create(alone.module, program, *devices, {.isa = alone.isa}).value();
      session->state().initialise(alone.module.train.seed);
      ASSERT_TRUE(before.resume(session->state()).ok());
      ASSERT_TRUE(session->weights_changed().ok());
      SyntheticRows rows(alone.module.graph, one, kSamples);
      rows.resize({step, one.batch, clock.samples_after(step)});
      ASSERT_TRUE(rows.start(step, session->ring()).ok());
      ASSERT_TRUE(rows.wait(step).ok());
      ASSERT_TRUE(session->step(step, clock.rate(step), static_cast<int>(step % std::ssize(session->ring()))).ok());
      for (const StateTensor& tensor : session->state().tensors()) {
        std::vector<std::byte> bytes(static_cast<size_t>(tensor.rows() * tensor.row_bytes()));
        session->state().read_rows(tensor, 0, tensor.rows(), bytes.data());
        EXPECT_EQ(bytes, after.tensors[tensor.name]) << optimizer << ", step " << step << ", " << tensor.name;
      }
    }
  }
}

// Active classes are included: classes are selected, graphs are built while the size changes, and rows catch up.
TEST(GrowingBatch, AStoppedRunResumesWithTheSameResult) {
  struct Kept {
    ActiveSpec active;
    Untouched untouched = Untouched::kAsIs;
  };
  const ActiveSpec knn{.kind = ActiveSpec::kKnn, .amount = 0.5, .neighbours = 4, .rebuild = {0.3, TrainSpan::kEpochs}};
  for (const Kept& kept : std::vector<Kept>{
           {{}}, {{.kind = ActiveSpec::kSample, .amount = 0.5}, Untouched::kExact}, {knn}, {knn, Untouched::kExact}}) {
    ModelOptions options = small();
    options.cosine = true;
    options.arguments = {{"momentum", 0.9}};
    options.active = kept.active;
    options.untouched = kept.untouched;
    const Prepared prepared = prepare_growing(options);
    const PlanChoice first{.micro_batches = 4};
    const PlanChoice second{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 16, .shards = 2};
    MemoryStore whole_store;
    const Ended whole = run_plan(prepared, options, first, &whole_store);
    ASSERT_EQ(whole.events.graphs.empty(), kept.active.kind != ActiveSpec::kKnn);
    for (const int64_t stop : {3, 12, 17, 22}) {
      MemoryStore store;
      run_plan(prepared, options, first, &store, stop);
      const Ended rest = run_plan(prepared, options, second, &store);
      EXPECT_EQ(rest.outcome.weights, whole.outcome.weights) << "stopped after " << stop;
      const std::vector<double> losses = whole.losses();
      EXPECT_EQ(rest.losses(), std::vector<double>(losses.begin() + stop, losses.end())) << "stopped after " << stop;
      EXPECT_EQ(store.tensors, whole_store.tensors);
    }
  }
}

// Replicas keep their residuals, also when the size of steps changes.
TEST(GrowingBatch, AStoppedRunWithCompressedGradientsResumes) {
  ModelOptions options = small();
  options.arguments = {{"momentum", 0.9}};
  Prepared prepared = prepare_growing(options);
  prepared.module.train.compress = {
      .density = 0.02, .on = {}, .warmup = TrainSpan{0.5, TrainSpan::kEpochs}, .span = {}};
  const PlanChoice choice{.devices = 2, .threads = 2, .replicas = 2, .micro_batches = 8, .shards = 2};
  MemoryStore whole_store;
  const Ended whole = run_plan(prepared, options, choice, &whole_store);
  ASSERT_GT(whole.events.steps.front().loss, whole.events.steps.back().loss);
  for (const int64_t stop : {3, 12, 17}) {
    MemoryStore store;
    run_plan(prepared, options, choice, &store, stop);
    const Ended rest = run_plan(prepared, options, choice, &store);
    EXPECT_EQ(rest.outcome.weights, whole.outcome.weights) << "stopped after " << stop;
    EXPECT_EQ(store.tensors, whole_store.tensors);
  }
}

// If a run is asked to stop just after its size has changed, it still reports the losses of all its steps.
TEST(GrowingBatch, AStopAtAChangeOfSizeEndsTheRunCleanly) {
  const ModelOptions options = small();
  const Prepared prepared = prepare_growing(options);
  const RunClock clock(prepared.module.train, kSamples);
  const Ended whole = run_plan(prepared, options, {.micro_batches = 4});
  for (const int64_t step : {clock.sizes().all()[1].first_step, clock.sizes().all()[2].first_step}) {
    Ended run;
    run.events.every = 1000;  // no step is reported
    const planner::Plan plan = plan_of(prepared, {.micro_batches = 4});
    const auto devices = make_cpu_devices(plan.training.threads);
    SyntheticRows rows(prepared.module.graph, options, kSamples);
    rows.stop_at(step);
    MemoryStore store;
    TrainRequest request{.module = prepared.module,
                         .training = plan.training,
                         .devices = *devices,
                         .batches = rows,
                         .checkpoints = &store,
                         .events = run.events,
                         .session = {.isa = prepared.isa}};
    for (const planner::StepProgram& one : plan.smaller) {
      request.smaller.push_back({one.units, &one.program, {}});
    }
    const auto outcome = train(request);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message;
    EXPECT_TRUE(outcome->interrupted);
    EXPECT_EQ(outcome->step, step);
    EXPECT_EQ(outcome->loss, whole.events.steps[static_cast<size_t>(step - 1)].loss);
    EXPECT_EQ(store.latest->step, step);
  }
}

TEST(GrowingBatch, TheProgramsOfAllSizesHaveTheSameArenas) {
  const ModelOptions options = small();
  const Prepared prepared = prepare_growing(options);
  const planner::Plan plan =
      plan_of(prepared, {.devices = 2, .threads = 2, .stages = 2, .micro_batches = 8, .shards = 2});
  ASSERT_EQ(plan.smaller.size(), 3U);
  for (const planner::StepProgram& step : plan.smaller) {
    EXPECT_EQ(step.program.batch, step.units * options.batch);
    EXPECT_EQ(step.program.micro_batches, 2 * step.units);
    for (size_t i = 0; i < plan.training.arenas.size(); ++i) {
      EXPECT_EQ(step.program.arenas[i].bytes, plan.training.arenas[i].bytes);
      EXPECT_LE(step.program.arenas[i].live_max, plan.training.arenas[i].bytes);
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
