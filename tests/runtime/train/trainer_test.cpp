// Trains small models end to end with programs that the planner emits.
#include "runtime/train/trainer.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "planner/verify/verify_program.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/watch/step_watch.h"
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
using testing::RunsTest;
using testing::SyntheticRows;

struct Trained {
  Recorder events;
  Result<TrainOutcome> outcome = Error{};
};

Trained run(const ModelOptions& options, const PlanChoice& choice, bool evaluate = false, Seconds predicted_step = 0,
            int64_t profile = -1) {
  const Prepared prepared = prepare_for(make_module(options));
  Trained trained;
  auto program = make_program(prepared, choice);
  EXPECT_TRUE(program.ok()) << program.error().message;
  auto inference = make_program(prepared, choice, false);
  EXPECT_TRUE(inference.ok()) << inference.error().message;
  const auto devices = make_cpu_devices(program->threads);
  SyntheticRows rows(prepared.module.graph, options, 1000);
  SyntheticRows val(prepared.inference.graph, options, 101);
  TrainRequest request{.module = prepared.module,
                       .training = *program,
                       .inference_module = &prepared.inference,
                       .inference = evaluate ? &*inference : nullptr,
                       .devices = *devices,
                       .batches = rows,
                       .eval_sources = {&val},
                       .events = trained.events,
                       .session = {.isa = prepared.isa},
                       .predicted = {.step = predicted_step, .instructions = {}},
                       .profile = profile};
  trained.outcome = train(request);
  return trained;
}

TEST(Trainer, ATinyDenseClassifierLearns) {
  const Trained trained = run({}, {});
  ASSERT_TRUE(trained.outcome.ok()) << trained.outcome.error().message;
  ASSERT_EQ(trained.events.steps.size(), 30u);
  EXPECT_GT(trained.events.steps.front().loss, 1.8);
  EXPECT_LT(trained.events.steps.back().loss, 0.7 * trained.events.steps.front().loss);
  EXPECT_EQ(trained.events.steps.back().metrics.size(), 1u);
  EXPECT_EQ(trained.outcome->weights.size(), 32u);
}

TEST(Trainer, ReportsTheBusyAndIdleTimeOfEachDevice) {
  const Trained trained = run({}, {.devices = 2, .stages = 2, .micro_batches = 2});
  ASSERT_TRUE(trained.outcome.ok()) << trained.outcome.error().message;
  double busy = 0;
  for (const StepReport& step : trained.events.steps) {
    ASSERT_EQ(step.devices.size(), 2u);
    EXPECT_EQ(step.compute, std::max(step.devices[0].busy, step.devices[1].busy));
    EXPECT_EQ(step.bubble, std::max(step.devices[0].idle, step.devices[1].idle));
    EXPECT_GT(step.bubble, 0);
    EXPECT_LE(step.compute + step.devices[0].exposed_comm, step.seconds);
    EXPECT_GT(step.resident, step.memory);
    busy += step.devices[1].busy;
  }
  ASSERT_EQ(trained.events.ends.back().devices.size(), 2u);
  EXPECT_DOUBLE_EQ(trained.events.ends.back().devices[1].busy, busy);
  EXPECT_THAT(trained.events.works, ::testing::IsSupersetOf(std::vector<std::pair<Work, int64_t>>{
                                        {Work::kData, 7}, {Work::kStep, 7}, {Work::kPrepare, 0}}));
}

TEST(Trainer, StepsSlowerThanPredictedCauseOneWarningWithTheSlowPart) {
  const auto slow = [](Seconds predicted_step) {
    const Trained trained = run({}, {.devices = 2, .stages = 2, .micro_batches = 2}, false, predicted_step);
    EXPECT_TRUE(trained.outcome.ok()) << trained.outcome.error().message;
    std::vector<std::string> messages;
    for (const WarnEvent& warning : trained.events.warnings) {
      if (warning.code == "XG0811") {
        messages.push_back(warning.message);
      }
    }
    return messages;
  };
  EXPECT_THAT(slow(1e-9), ::testing::ElementsAre(::testing::HasSubstr("; most of the difference is o")));
  EXPECT_THAT(slow(0), ::testing::IsEmpty()) << "nothing was predicted";
}

TEST(Trainer, AProfileShowsWhereTheTimeOfAStepGoes) {
  const auto profiles = [](int64_t warm_up) {
    return run({}, {.devices = 2, .stages = 2, .micro_batches = 2}, false, 0, warm_up).events.profiles;
  };
  EXPECT_TRUE(profiles(-1).empty());
  const auto early = profiles(3);
  ASSERT_EQ(early.size(), 1u);
  EXPECT_EQ(early[0].first_step, 4);
  EXPECT_EQ(early[0].steps, 10);
  for (int device = 0; device < 2; ++device) {
    Seconds sum = early[0].data_wait + early[0].outside;
    for (const ProfileRow& row : early[0].rows) {
      sum += row.device == device ? row.seconds : 0;
    }
    EXPECT_NEAR(sum, early[0].step, 1e-9) << "the rows of device " << device;
  }
  EXPECT_EQ(profiles(27).at(0).steps, 3) << "30 steps in all";
  const auto late = run({}, {}, false, 0, 30).events;
  EXPECT_TRUE(late.profiles.empty());
  ASSERT_FALSE(late.warnings.empty());
  EXPECT_EQ(late.warnings.back().code, "XG0814");
}

TEST(Trainer, AShardedHeadLearnsAndIsEvaluated) {
  for (const bool cosine : {false, true}) {
    ModelOptions options{.classes = 130, .head = true, .cosine = cosine, .rate = 0.2, .steps = 60};
    options.batch = 96;
    const Trained trained = run(options, {.shards = 1}, true);
    ASSERT_TRUE(trained.outcome.ok()) << trained.outcome.error().message;
    EXPECT_LT(trained.events.steps.back().loss, 0.8 * trained.events.steps.front().loss);
    ASSERT_FALSE(trained.events.evals.empty());
    EXPECT_EQ(trained.events.evals.back().metrics[0].key, "val");
    EXPECT_GT(trained.events.evals.back().metrics[0].value, 0.05);
    EXPECT_EQ(trained.events.evals.back().sources[0].samples, 101);
  }
}

TEST_F(RunsTest, AStoppedAndResumedRunEndsWithTheSameBits) {
  const auto whole = train_with(nullptr, -1);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  MemoryStore store;
  const auto first = train_with(&store, 5);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->step, 5);
  EXPECT_FALSE(first->interrupted);
  EXPECT_NE(first->weights, whole->weights);
  const auto rest = train_with(&store, -1);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->step, 12);
  EXPECT_EQ(rest->weights, whole->weights);
  EXPECT_EQ(rest->loss, whole->loss);
}

// lars and lamb have the states of sgd and adamw. Their ratios are computed from weights, states and gradients, so they
// need no state.
TEST_F(RunsTest, ARunWithTrustRatiosResumesWithAnotherPlan) {
  for (const auto& [optimizer, states] :
       std::vector<std::pair<std::string, std::vector<std::string>>>{{"lars", {"velocity"}}, {"lamb", {"m", "v"}}}) {
    SCOPED_TRACE(optimizer);
    options_.optimizer = optimizer;
    options_.arguments = {};
    options_.rate = optimizer == "lars" ? 1 : 0.02;
    options_.clip = {.kind = ClipSpec::kNorm, .limit = 1};
    prepared_ = prepare_for(make_module(options_));
    choice_ = {};
    MemoryStore at_end;
    const auto whole = train_with(&at_end, -1);
    ASSERT_TRUE(whole.ok()) << whole.error().message;
    for (const std::string& state : states) {
      for (const char* tensor : {"stem.weight", "stem.bias", "layer0.bn.weight", "id.weight", "id.bias"}) {
        EXPECT_TRUE(at_end.tensors.contains(std::string(tensor) + "." + state)) << tensor << "." << state;
      }
    }
    MemoryStore store;
    ASSERT_TRUE(train_with(&store, 5).ok());
    choice_ = {.devices = 2, .threads = 3, .replicas = 2, .micro_batches = 4, .shards = 3};
    const auto rest = train_with(&store, -1);
    ASSERT_TRUE(rest.ok()) << rest.error().message;
    EXPECT_EQ(rest->weights, whole->weights);
    EXPECT_EQ(rest->loss, whole->loss);
    EXPECT_TRUE(store.tensors == at_end.tensors) << "what the checkpoints at the end hold";
  }
}

TEST_F(RunsTest, InitialWeightsAreNotComputedIfACheckpointReplacesThem) {
  MemoryStore store;
  ASSERT_TRUE(train_with(&store, 2).ok());
  EXPECT_THAT(events_.subjects, ::testing::Contains("the initial weights"));
  events_.subjects.clear();
  ASSERT_TRUE(train_with(&store, 4).ok());
  EXPECT_THAT(events_.subjects, ::testing::Contains("the latest checkpoint"));
  EXPECT_THAT(events_.subjects, ::testing::Not(::testing::Contains("the initial weights")));
}

TEST_F(RunsTest, ASignalFinishesTheStepAndSaves) {
  MemoryStore store;
  const std::atomic<bool> stop{true};
  const auto outcome = train_with(&store, -1, &stop);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(outcome->interrupted);
  EXPECT_EQ(outcome->step, 1);
  EXPECT_EQ(store.saves, 1);
  EXPECT_EQ(events_.ends.at(0).exit, 75);
}

// A source whose reads hang, like those of a loader.
class RowsThatStopComing final : public BatchSource {
 public:
  explicit RowsThatStopComing(BatchSource& rows) : rows_(rows) {}
  int64_t samples() const override { return rows_.samples(); }
  Status start(int64_t step, std::span<const BatchView> ring) override { return rows_.start(step, ring); }
  void resize(const StepRows& steps) override { rows_.resize(steps); }
  bool ready(int64_t step) override { return rows_.ready(step); }
  Status wait(int64_t step) override {
    return step < 3 ? rows_.wait(step) : Status(Error{ErrorKind::kInterrupted, "", "a read did not end", ""});
  }
  void release(int64_t step) override { rows_.release(step); }
  void stop() override { rows_.stop(); }

 private:
  BatchSource& rows_;
};

TEST_F(RunsTest, AStopDuringTheWaitForABatchSavesTheStepsBeforeIt) {
  SyntheticRows synthetic(prepared_.module.graph, options_, 1000);
  RowsThatStopComing rows(synthetic);
  MemoryStore store;
  const auto outcome = train_on(rows, &store);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(outcome->interrupted);
  EXPECT_EQ(outcome->step, 3);
  ASSERT_TRUE(store.latest.has_value());
  EXPECT_EQ(store.latest->step, 3);
}

TEST_F(RunsTest, TheErrorForANonFiniteValueNamesItsOperatorAndRows) {
  options_ = {.layers = 0};
  prepared_ = prepare_for(make_module(options_));
  const std::vector<float> large(static_cast<size_t>(options_.width * options_.input), 1e20F);
  const auto bytes = std::as_bytes(std::span(large));
  MemoryStore store;
  store.tensors["stem.weight"].assign(bytes.begin(), bytes.end());
  store.latest = CheckpointStore::Resumed{2, "memory"};
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  rows.poison(2 * options_.batch + 9, 1e20F);  // in a row of the third step
  const auto outcome = train_on(rows, &store);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kNonFinite);
  EXPECT_EQ(outcome.error().code, "XG0810");
  EXPECT_NE(outcome.error().message.find("`stem` (linear) gives a value that is not finite"), std::string::npos)
      << outcome.error().message;
  EXPECT_NE(outcome.error().message.find("rows 8 to 11 of the batch of step 3"), std::string::npos)
      << outcome.error().message;
  EXPECT_TRUE(outcome.error().span.valid());
  EXPECT_EQ(events_.ends.at(0).exit, 5);
  EXPECT_EQ(events_.steps.size(), 0u);
  EXPECT_EQ(store.saves, 0);
}

TEST_F(RunsTest, NonFiniteDataIsNotBlamedOnTheLearningRate) {
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  rows.poison(2 * options_.batch + 9);
  const auto outcome = train_on(rows, nullptr);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kNonFinite);
  EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("`stem` (linear) reads data of `x` that are not finite"));
  EXPECT_THAT(outcome.error().help, ::testing::HasSubstr("fix the samples"));
}

TEST_F(RunsTest, StepsThatAreNotReportedAreNotTimed) {
  options_.steps = 40;
  prepared_ = prepare_for(make_module(options_));
  const auto all = train_with(nullptr, -1);
  ASSERT_TRUE(all.ok()) << all.error().message;
  const std::vector<StepReport> every_step = events_.steps;
  ASSERT_EQ(every_step.size(), 40U);
  EXPECT_EQ(events_.ends.back().timed_steps, 40);

  events_ = {};
  events_.every = 7;
  const auto some = train_with(nullptr, -1);
  ASSERT_TRUE(some.ok()) << some.error().message;
  ASSERT_EQ(events_.steps.size(), 5U);
  for (const StepReport& step : events_.steps) {
    const StepReport& same = every_step[static_cast<size_t>(step.step - 1)];
    EXPECT_EQ(step.step % 7, 0);
    EXPECT_EQ(step.loss, same.loss);
    EXPECT_EQ(step.metrics, same.metrics);
    EXPECT_GT(step.compute, 0);
  }
  EXPECT_EQ(events_.ends.back().timed_steps, StepWatch::kMeasured + 2) << "those of the watch, steps 28 and 35";
  EXPECT_EQ(some->loss, all->loss) << "of step 40, which nobody looked at";
  EXPECT_EQ(some->weights, all->weights);
}

TEST_F(RunsTest, ALossThatExplodesEndsTheRun) {
  options_.rate = 1e12;
  prepared_ = prepare_for(make_module(options_));
  const auto outcome = train_with(nullptr, -1);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::kNonFinite) << outcome.error().message;
}

// A source whose evaluation never ends, and which asks the run to stop at its first batch.
struct StopsAt final : RowSource {
  StopsAt(RowSource& from, std::atomic<bool>& flag) : rows(from), asked(flag) {}
  std::string_view name() const override { return rows.name(); }
  int64_t samples() const override { return 1'000'000'000; }
  void begin(int64_t first, int64_t count, const BatchView& batch) override {
    asked = true;
    rows.begin(first, count, batch);
  }
  Status finish() override { return rows.finish(); }
  void cancel() override { rows.cancel(); }
  RowSource& rows;
  std::atomic<bool>& asked;
};

TEST_F(RunsTest, AStopRequestEndsAnEvaluation) {
  MemoryStore store;
  std::atomic<bool> stop{false};
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  SyntheticRows val(prepared_.inference.graph, options_, 101);
  StopsAt endless(val, stop);
  const auto outcome = train_on(rows, &store, -1, &stop, &endless);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(outcome->interrupted);
  EXPECT_EQ(store.saves, 1);
  EXPECT_EQ(store.latest->step, outcome->step);
  EXPECT_TRUE(events_.evals.empty());
  EXPECT_EQ(events_.ends.at(0).exit, 75);
}

TEST_F(RunsTest, ARunThatStopsInAnEvaluationReportsTheLossOfItsLastStep) {
  Module module = make_module(options_);
  module.train.eval_every = TrainSpan{5, TrainSpan::kSteps};
  prepared_ = prepare_for(module);
  const auto whole = train_with(nullptr, 5);
  ASSERT_TRUE(whole.ok()) << whole.error().message;
  events_.every = 1000;
  std::atomic<bool> stop{false};
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  SyntheticRows val(prepared_.inference.graph, options_, 101);
  StopsAt endless(val, stop);
  const auto outcome = train_on(rows, nullptr, -1, &stop, &endless);
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_TRUE(outcome->interrupted);
  EXPECT_EQ(outcome->step, 5);
  EXPECT_EQ(outcome->loss, whole->loss);
}

TEST_F(RunsTest, AResumedRunMakesTheMissingEvaluationOfItsLastStep) {
  MemoryStore store;
  SyntheticRows val(prepared_.inference.graph, options_, 101);
  {
    SyntheticRows rows(prepared_.module.graph, options_, 1000);
    const auto all_but_measured = train_on(rows, &store);
    ASSERT_TRUE(all_but_measured.ok()) << all_but_measured.error().message;
    ASSERT_EQ(all_but_measured->step, 12);
  }
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  const auto rest = train_on(rows, &store, -1, nullptr, &val);
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->step, 12);
  ASSERT_EQ(events_.evals.size(), 1U);
  EXPECT_EQ(events_.evals[0].step, 12);
}

TEST_F(RunsTest, LearnedWeightsAreSavedIfAnEvaluationRunsOutOfMemory) {
  struct Greedy final : RowSource {
    std::string_view name() const override { return "val"; }
    int64_t samples() const override { return 100; }
    void begin(int64_t, int64_t, const BatchView&) override {}
    Status finish() override { throw std::bad_alloc(); }
    void cancel() override {}
  };
  MemoryStore store;
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  Greedy greedy;
  const auto outcome = train_on(rows, &store, -1, nullptr, &greedy);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(exit_code(outcome.error().kind), 4);
  EXPECT_EQ(store.latest->step, 12);
}

TEST_F(RunsTest, LearnedWeightsAreSavedIfAnEvaluationFails) {
  MemoryStore store;
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  SyntheticRows broken(prepared_.inference.graph, options_, 101);
  broken.fail_from(0);
  const auto outcome = train_on(rows, &store, -1, nullptr, &broken);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, "XG0408");
  EXPECT_EQ(store.saves, 1);
  EXPECT_EQ(store.latest->step, 12);
}

TEST_F(RunsTest, LearnedWeightsAreSavedIfTheDataFails) {
  MemoryStore store;
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  rows.fail_from(7);
  const auto outcome = train_on(rows, &store);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, "XG0408");
  EXPECT_EQ(store.saves, 1);
  EXPECT_EQ(store.latest->step, 7);
}

TEST_F(RunsTest, GradientsThatAreNotFiniteAreNotApplied) {
  options_ = {.layers = 0, .clip = {.kind = ClipSpec::kNorm, .limit = 1}};
  prepared_ = prepare_for(make_module(options_));
  // In the forward pass, small times large is 1. In the backward pass, large times large is infinite.
  const auto all = [&](float value, int64_t count) {
    const std::vector<float> values(static_cast<size_t>(count), value);
    const auto bytes = std::as_bytes(std::span(values));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  MemoryStore store;
  store.tensors["stem.weight"] = all(1e-20F, options_.width * options_.input);
  store.tensors["out.weight"] = all(1e25F, options_.classes * options_.width);
  const std::vector<float> other_sign(static_cast<size_t>(options_.width), -1e25F);
  std::memcpy(store.tensors["out.weight"].data(), other_sign.data(), other_sign.size() * sizeof(float));
  store.latest = CheckpointStore::Resumed{0, "memory"};
  SyntheticRows rows(prepared_.module.graph, options_, 1000);
  rows.poison(0, 1e20F);
  const auto outcome = train_on(rows, &store);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code, "XG0810");
  EXPECT_THAT(outcome.error().message, ::testing::HasSubstr("the gradient of `stem.weight` is not finite in step 1"));
  EXPECT_EQ(store.saves, 0);
}

TEST(Inference, OutputsAndBestClassesAgreeWithTheMetric) {
  const ModelOptions options{.classes = 70, .head = true, .steps = 12};
  const Prepared prepared = prepare_for(make_module(options));
  std::vector<float> features;
  for (const PlanChoice& choice : std::vector<PlanChoice>{
           {}, {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
    const auto program = make_program(prepared, choice, false);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const auto devices = make_cpu_devices(program->threads);
    auto session = Session::create(prepared.inference, *program, *devices, {.isa = prepared.isa}).value();
    session->state().initialise(3);
    ASSERT_TRUE(session->weights_changed().ok());
    SyntheticRows rows(prepared.inference.graph, options, 101);
    Recorder recorder;
    const auto evaluation = evaluate(*session, {&rows}, &recorder);
    ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
    const auto told = [&](Work work) {
      std::vector<std::pair<Work, int64_t>> parts;
      for (int64_t done = 0; done < 101; done += options.batch) {
        parts.emplace_back(work, done);
      }
      parts.emplace_back(work, 101);
      return parts;
    };
    EXPECT_EQ(recorder.works, told(Work::kEvaluate));

    ValueId logits;
    ValueId feature;
    for (const NamedValue& output : prepared.inference.graph.outputs) {
      (output.name == "logits" ? logits : feature) = output.value;
    }
    std::vector<float> got(static_cast<size_t>(101 * options.width));
    const Status status = predict(*session, rows, feature, 0, 101, std::as_writable_bytes(std::span(got)), &recorder);
    recorder.works.erase(recorder.works.begin(),
                         recorder.works.begin() + static_cast<ptrdiff_t>(recorder.works.size() / 2));
    EXPECT_EQ(recorder.works, told(Work::kPredict));
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_TRUE(features.empty() || features == got) << "the same features from every plan";
    features = got;

    const int64_t k = program->heads[0].top_k;
    std::vector<int32_t> classes(static_cast<size_t>(options.batch * k));
    std::vector<float> scores(classes.size());
    int hits = 0;
    const auto count_hits = [&](int64_t done, int64_t count) -> Status {
      XRUN_TRY(session->read_best(logits, classes, scores));
      const BatchView& batch = session->ring()[static_cast<size_t>(done / options.batch % 2)];
      const auto* labels = reinterpret_cast<const int32_t*>(batch.inputs[1]);
      for (int64_t row = 0; row < count; ++row) {
        hits += classes[static_cast<size_t>(row * k)] == labels[row] ? 1 : 0;
      }
      return {};
    };
    ASSERT_TRUE(run_rows(*session, rows, 0, 101, count_hits).ok());
    EXPECT_NEAR(evaluation->metrics[0].value, hits / 101.0, 1e-12);
  }
}

// A source that records the batches it was asked for, and fails at one of them.
struct RecordedRows final : RowSource {
  struct Asked {
    int64_t first = 0;
    int64_t rows = 0;
    std::byte* to = nullptr;
  };
  RecordedRows(RowSource& from, int64_t fails) : rows(from), failing(fails) {}
  std::string_view name() const override { return rows.name(); }
  int64_t samples() const override { return rows.samples(); }
  void begin(int64_t first, int64_t count, const BatchView& batch) override {
    EXPECT_FALSE(under_way) << "one batch at a time";
    under_way = true;
    asked.push_back({first, count, batch.inputs[0]});
    rows.begin(first, count, batch);
  }
  Status finish() override {
    under_way = false;
    const Status done = rows.finish();
    return std::ssize(asked) - 1 == failing ? Status(Error{ErrorKind::kContent, "XG0408", "broken", ""}) : done;
  }
  void cancel() override { under_way = false; }
  RowSource& rows;
  int64_t failing;
  bool under_way = false;
  std::vector<Asked> asked;
};

TEST(Inference, TheNextBatchIsReadWhileOneIsComputed) {
  const ModelOptions options{.classes = 70, .head = true, .steps = 12};
  const Prepared prepared = prepare_for(make_module(options));
  const auto program = make_program(prepared, {}, false);
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto devices = make_cpu_devices(program->threads);
  auto session = Session::create(prepared.inference, *program, *devices, {.isa = prepared.isa}).value();
  session->state().initialise(3);
  ASSERT_TRUE(session->weights_changed().ok());
  ASSERT_EQ(session->ring().size(), 2U);
  SyntheticRows rows(prepared.inference.graph, options, 1000);
  const int64_t batch = options.batch;
  const int64_t last = batch / 2;
  for (const int64_t failing : {2, -1}) {
    RecordedRows recorded(rows, failing);
    std::vector<int64_t> computed;
    const auto body = [&](int64_t done, int64_t count) -> Status {
      EXPECT_EQ(recorded.under_way, done + count < 3 * batch + last) << "while the results of " << done << " are read";
      EXPECT_EQ(count, std::min(batch, 3 * batch + last - done));
      computed.push_back(done);
      return {};
    };
    const Status status = run_rows(*session, recorded, 10, 3 * batch + last, body);
    EXPECT_FALSE(recorded.under_way) << "nothing is read afterwards";
    EXPECT_EQ(status.ok(), failing < 0);
    EXPECT_EQ(std::ssize(computed), failing < 0 ? 4 : 2) << "the error comes after the batches before it";
    ASSERT_EQ(std::ssize(recorded.asked), failing < 0 ? 4 : 3);
    for (size_t i = 0; i < recorded.asked.size(); ++i) {
      EXPECT_EQ(recorded.asked[i].first, 10 + static_cast<int64_t>(i) * batch);
      EXPECT_EQ(recorded.asked[i].rows, i < 3 ? batch : last);
      EXPECT_EQ(recorded.asked[i].to, session->ring()[i % 2].inputs[0]);
    }
  }
  const std::byte* end = session->ring()[1].inputs[0];
  const Bytes row = options.input * 4;
  EXPECT_TRUE(std::all_of(end + last * row, end + batch * row, [](std::byte b) { return b == std::byte{0}; }));
}

// A plan file may contain anything. Here it keeps the classes of a list twice and their logits nowhere.
planner::Program without_scores(planner::Program program, const Graph& graph) {
  for (planner::Buffer& buffer : program.buffers) {
    if (buffer.purpose == planner::Purpose::kResult && graph.value(buffer.value).output == 1) {
      buffer.value = graph.node(graph.value(buffer.value).producer).outputs[0];
    }
  }
  return program;
}

// `topk` of a sharded head has two outputs, classes and logits, which are gathered from all shards.
TEST(Inference, ListsTheBestClassesOfAShardedHead) {
  constexpr int64_t kListed = 7;
  const ModelOptions options{.classes = 70, .head = true, .steps = 12};
  Module module = make_module(options);
  const ValueId head_logits = module.graph.node(module.graph.heads[0].node).outputs[0];
  const auto list = call_op(module.graph, ops::find_op("topk")->def, {head_logits}, {{"k", kListed}}, "best", {});
  ASSERT_TRUE(list.ok()) << list.error().message;
  const std::vector<ValueId> made = module.graph.node(*list).outputs;
  module.graph.outputs.push_back({"classes", made[0]});
  module.graph.outputs.push_back({"scores", made[1]});
  const Prepared prepared = prepare_for(module);
  std::vector<int32_t> expected;
  for (const PlanChoice& choice :
       {PlanChoice{}, PlanChoice{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2, .shards = 2},
        PlanChoice{.devices = 4,
        .threads = 4,
        .stages = 2,
        .replicas = 2,
        .micro_batches = 4,
        .pipeline = PipelineKind::kOneFOneB,
        .shards = 3}}) {
    ASSERT_TRUE(make_program(prepared, choice).ok()) << "training leaves the list out";
    const auto program = make_program(prepared, choice, false);
    ASSERT_TRUE(program.ok()) << program.error().message;
    ASSERT_TRUE(planner::verify_program(*program, prepared.inference, kGiB).ok());
    EXPECT_EQ(program->heads[0].top_k, kListed);
    const Status half = planner::verify_program(without_scores(*program, prepared.inference.graph), prepared.inference);
    ASSERT_FALSE(half.ok());
    EXPECT_THAT(half.error().message,
                ::testing::HasSubstr("lack the rows of result 0 of `best`; they hold the rows of result 1"));
    const auto devices = make_cpu_devices(program->threads);
    auto session = Session::create(prepared.inference, *program, *devices, {.isa = prepared.isa}).value();
    session->state().initialise(3);
    ASSERT_TRUE(session->weights_changed().ok());
    SyntheticRows rows(prepared.inference.graph, options, 101);
    const auto nothing = [](int64_t, int64_t) { return Status(); };
    ASSERT_TRUE(run_rows(*session, rows, 0, options.batch, nothing).ok());
    const auto size = static_cast<size_t>(options.batch * kListed);
    std::vector<int32_t> classes(size);
    std::vector<float> scores(size);
    std::vector<int32_t> best(size);
    std::vector<float> best_scores(size);
    for (const NamedValue& output : prepared.inference.graph.outputs) {
      if (output.name == "classes") {
        ASSERT_TRUE(session->read_rows(output.value, std::as_writable_bytes(std::span(classes))).ok());
      } else if (output.name == "scores") {
        ASSERT_TRUE(session->read_rows(output.value, std::as_writable_bytes(std::span(scores))).ok());
      } else if (output.name == "logits") {
        ASSERT_TRUE(session->read_best(output.value, best, best_scores).ok());
      }
    }
    EXPECT_EQ(classes, best);
    EXPECT_EQ(scores, best_scores);
    EXPECT_GT(std::set<int32_t>(classes.begin(), classes.end()).size(), 20U);
    EXPECT_TRUE(expected.empty() || expected == classes) << choice.text();
    expected = classes;
  }
}

// The language's `gather` is `topk` of all classes, in the order of their numbers.
TEST(Inference, GathersAllLogitsOfASmallHead) {
  const ModelOptions options{.classes = 70, .head = true, .steps = 12};
  Module module = make_module(options);
  const ValueId head_logits = module.graph.node(module.graph.heads[0].node).outputs[0];
  const auto all = call_op(module.graph, ops::find_op("topk")->def, {head_logits},
                           {{"k", options.classes}, {"by_class", true}}, "all", {});
  ASSERT_TRUE(all.ok()) << all.error().message;
  module.graph.outputs.push_back({"all", module.graph.node(*all).outputs[1]});
  const Prepared prepared = prepare_for(module);
  std::vector<float> expected;
  for (const PlanChoice& choice :
       {PlanChoice{}, PlanChoice{.devices = 2, .threads = 2, .stages = 2, .micro_batches = 2, .shards = 2}}) {
    const auto program = make_program(prepared, choice, false);
    ASSERT_TRUE(program.ok()) << program.error().message;
    ASSERT_TRUE(planner::verify_program(*program, prepared.inference, kGiB).ok());
    const auto devices = make_cpu_devices(program->threads);
    auto session = Session::create(prepared.inference, *program, *devices, {.isa = prepared.isa}).value();
    session->state().initialise(3);
    ASSERT_TRUE(session->weights_changed().ok());
    SyntheticRows rows(prepared.inference.graph, options, 101);
    const auto nothing = [](int64_t, int64_t) { return Status(); };
    ASSERT_TRUE(run_rows(*session, rows, 0, options.batch, nothing).ok());
    const auto size = static_cast<size_t>(options.batch * options.classes);
    std::vector<float> logits(size);
    std::vector<int32_t> best(size);
    std::vector<float> best_scores(size);
    for (const NamedValue& output : prepared.inference.graph.outputs) {
      if (output.name == "all") {
        ASSERT_TRUE(session->read_rows(output.value, std::as_writable_bytes(std::span(logits))).ok());
      } else if (output.name == "logits") {
        ASSERT_TRUE(session->read_best(output.value, best, best_scores).ok());
      }
    }
    for (size_t i = 0; i < size; ++i) {
      const size_t row = i / static_cast<size_t>(options.classes);
      EXPECT_EQ(logits[row * static_cast<size_t>(options.classes) + static_cast<size_t>(best[i])], best_scores[i]);
    }
    EXPECT_TRUE(expected.empty() || expected == logits) << choice.text();
    expected = logits;
  }
}

}  // namespace
}  // namespace xrun::runtime
