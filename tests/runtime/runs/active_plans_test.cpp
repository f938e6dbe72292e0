// Heads in every mode and row format give one result for every plan: losses, active classes, graphs of nearest classes,
// and everything that a checkpoint holds. Cases are drawn at random from all combinations, with a seed that is printed.
// The corner cases are always tested.
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

#include "tests/runtime/runs/rank_runs.h"
#include "tests/runtime/runs/run_fixture.h"

namespace xrun::runtime {
namespace {

using testing::is_legal;
using testing::make_module;
using testing::make_program;
using testing::MemoryStore;
using testing::ModelOptions;
using testing::PlanChoice;
using testing::prepare_for;
using testing::Prepared;
using testing::RankOptions;
using testing::RankResult;
using testing::RunsTest;

// The formats of class rows and optimizer states, and the treatment of rows that a step does not use.
struct Rows {
  RowFormat weights;
  RowFormat states;
  const char* optimizer;
  double momentum;
  Untouched untouched = Untouched::kAsIs;
};
constexpr Rows kRows[] = {
    {RowFormat::kF32, RowFormat::kF32, "sgd", 0},
    {RowFormat::kF32, RowFormat::kF32, "sgd", 0.9},
    {RowFormat::kF32, RowFormat::kF32, "sgd", 0.9, Untouched::kExact},
    {RowFormat::kF32, RowFormat::kBf16, "sgd", 0.9},
    {RowFormat::kF32, RowFormat::kBf16, "adamw", 0},
    {RowFormat::kBf16, RowFormat::kF32, "sgd", 0},
    {RowFormat::kBf16, RowFormat::kBf16, "sgd", 0.9},
    {RowFormat::kBf16, RowFormat::kF32, "adamw", 0},
    {RowFormat::kFp8, RowFormat::kF32, "sgd", 0},
    {RowFormat::kFp8, RowFormat::kBf16, "sgd", 0.9},
    {RowFormat::kF32, RowFormat::kF32, "lars", 0.9},
    {RowFormat::kBf16, RowFormat::kBf16, "lars", 0.9},
    {RowFormat::kF32, RowFormat::kBf16, "lamb", 0},
    {RowFormat::kBf16, RowFormat::kF32, "lamb", 0},
    {RowFormat::kBf16, RowFormat::kF32, "sgd", 0.9, Untouched::kExact},
    {RowFormat::kFp8, RowFormat::kF32, "sgd", 0.9, Untouched::kExact},
};
constexpr Rows kExact = kRows[2];
constexpr Rows kBf16Momentum = kRows[6];
constexpr Rows kFp8Plain = kRows[8];
constexpr Rows kLars = kRows[10];
constexpr Rows kLambBf16 = kRows[13];
constexpr Rows kExactBf16 = kRows[14];
constexpr Rows kExactFp8 = kRows[15];

constexpr const char* kModes[] = {"all", "sample", "knn"};

std::string text_of(const ModelOptions& model) {
  return std::string(kModes[model.active.kind]) + " " + std::to_string(model.active.amount) + " of " +
         std::to_string(model.classes) + ", K " + std::to_string(model.active.neighbours) +
         (model.active.log_q ? ", logQ" : "") + (model.active.exact ? "" : ", approximate") + ", rows " +
         std::string(name_of(model.weights)) + ", states " + std::string(name_of(model.states)) + ", " +
         model.optimizer + (model.untouched == Untouched::kExact ? ", exact" : "") +
         (model.cosine ? ", cosine" : ", bias") + (model.precision == PrecisionMode::kF32 ? ", f32" : ", bf16") +
         (model.clip.kind == ClipSpec::kNone ? "" : ", clip") + (model.weighted ? ", weighted" : "");
}

ModelOptions model_of(ActiveSpec::Kind kind, const Rows& rows) {
  ModelOptions model{.layers = 2, .classes = 1500, .head = true, .cosine = true, .dropout = 0.1, .steps = 14};
  model.active = {.kind = kind, .amount = kind == ActiveSpec::kAll ? 1 : 0.5};
  if (kind == ActiveSpec::kKnn) {
    model.active.neighbours = 8;
    model.active.rebuild = {5, TrainSpan::kSteps};
  }
  model.weights = rows.weights;
  model.states = rows.states;
  model.untouched = kind == ActiveSpec::kAll ? Untouched::kAsIs : rows.untouched;
  model.optimizer = rows.optimizer;
  model.arguments = {};
  if (rows.momentum > 0) {
    model.arguments.set("momentum", rows.momentum);
  }
  if (model.untouched == Untouched::kAsIs) {
    model.arguments.set("weight_decay", 1e-3);
  }
  model.rate = model.optimizer == "adamw" || model.optimizer == "lamb" ? 0.01 : 0.1;
  return model;
}

class Draws {
 public:
  explicit Draws(uint32_t seed) : random_(seed) {}
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  bool chance() { return random_() % 2 == 0; }

  ModelOptions model() {
    const auto kind = one_of({ActiveSpec::kAll, ActiveSpec::kSample, ActiveSpec::kKnn});
    ModelOptions model = model_of(kind, kRows[random_() % std::size(kRows)]);
    model.classes = one_of<int64_t>({130, 700, 1500});
    if (kind != ActiveSpec::kAll) {
      model.active.amount = one_of({0.5, 0.2, 0.9, 60.0});
      model.active.log_q = chance();
    }
    if (kind == ActiveSpec::kKnn) {
      model.active.neighbours = one_of<int64_t>({2, 8, 33});
      model.active.exact = chance();
      model.active.rebuild.amount = one_of({3.0, 10.0});
    }
    model.cosine = kind == ActiveSpec::kKnn || chance();
    model.precision = one_of({PrecisionMode::kF32, PrecisionMode::kMixedBf16});
    model.clip = chance() ? ClipSpec{ClipSpec::kNorm, 0.5, chance()} : ClipSpec{};
    model.weighted = chance();
    model.norm_rows = one_of<int64_t>({4, 8});
    return model;
  }

  PlanChoice plan(const Module& module) {
    for (;;) {
      PlanChoice choice{.devices = one_of({1, 2, 3, 4}),
                        .stages = one_of({1, 2}),
                        .replicas = one_of({1, 2}),
                        .micro_batches = one_of({1, 2, 3, 4, 6}),
                        .pipeline = one_of({PipelineKind::kGpipe, PipelineKind::kOneFOneB}),
                        .recompute = chance(),
                        .shards = one_of({1, 2, 3, 4}),
                        .overlap = chance(),
                        .kept_blocks = one_of({0, 1, 100})};
      choice.threads = choice.devices + one_of({0, 1, 2});
      if (is_legal(module, choice)) {
        return choice;
      }
    }
  }

 private:
  std::mt19937 random_;
};

class ActivePlans : public RunsTest {
 protected:
  // All results of a run.
  struct Story {
    std::vector<double> losses;
    std::vector<std::pair<int64_t, double>> active;  // number of active classes in each step, and share from lists
    std::vector<double> common;
    std::vector<std::pair<int64_t, int64_t>> graphs;  // step whose weights a graph was built from, and its first use
    std::map<std::string, std::vector<std::byte>> tensors;
  };

  void use(const ModelOptions& model) {
    options_ = model;
    prepared_ = prepare_for(make_module(model));
  }

  Story story(const PlanChoice& choice) {
    choice_ = choice;
    events_ = {};
    MemoryStore store;
    const auto outcome = train_with(&store, -1);
    EXPECT_TRUE(outcome.ok()) << outcome.error().message;
    Story story{.tensors = store.tensors};
    for (const StepReport& step : events_.steps) {
      story.losses.push_back(step.loss);
      for (const ActiveReport& head : step.active) {
        story.active.emplace_back(head.classes, head.near);
        story.common.push_back(head.common);
      }
    }
    for (const GraphEvent& graph : events_.graphs) {
      story.graphs.emplace_back(graph.of_step, graph.step);
    }
    return story;
  }

  void expect_same(const Story& got, const Story& want) {
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_EQ(got.active, want.active);
    ASSERT_EQ(got.common.size(), want.common.size());
    for (size_t i = 0; i < want.common.size(); ++i) {
      EXPECT_NEAR(got.common[i], want.common[i], 1e-12) << "the sum of what shards count";
    }
    EXPECT_EQ(got.graphs, want.graphs);
    ASSERT_EQ(got.tensors.size(), want.tensors.size());
    for (const auto& [name, bytes] : want.tensors) {
      EXPECT_TRUE(got.tensors.at(name) == bytes) << name;
    }
  }

  // Expects that the run learned, and that it selected classes and built graphs when it should.
  void expect_sound(const Story& story) {
    ASSERT_EQ(story.losses.size(), static_cast<size_t>(options_.steps));
    EXPECT_TRUE(std::ranges::all_of(story.losses, [](double loss) { return std::isfinite(loss); }));
    EXPECT_EQ(story.active.empty(), options_.active.kind == ActiveSpec::kAll);
    EXPECT_EQ(story.graphs.empty(), options_.active.kind != ActiveSpec::kKnn);
    EXPECT_EQ(story.tensors.contains("id.weight.lists"), options_.active.kind == ActiveSpec::kKnn);
    EXPECT_EQ(story.tensors.contains("id.weight.last"), options_.untouched == Untouched::kExact);
  }

  // Expects that two ranks give the result of one process, up to two steps after the first graph.
  void expect_same_on_ranks(const PlanChoice& choice) {
    const auto program = make_program(prepared_, choice);
    ASSERT_TRUE(program.ok()) << program.error().message;
    RankOptions options{.steps = 4};
    const bool knn = options_.active.kind == ActiveSpec::kKnn;
    if (knn) {
      options.steps = static_cast<int>(GraphSchedule(prepared_.module.train, 1000).use_of(1)) + 2;
    }
    const RankResult one = testing::run_one(prepared_, options_, *program, options);
    ASSERT_FALSE(one.losses.empty());
    ASSERT_EQ(one.graphs.size(), knn ? 1U : 0U);
    size_t tellers = 0;
    for (const RankResult& rank : testing::run_ranks(prepared_, options_, *program, 2, {options, options})) {
      ASSERT_TRUE(rank.status.ok()) << rank.status.error().message;
      EXPECT_EQ(rank.weights, one.weights);
      tellers += rank.losses.empty() ? 0 : 1;
      EXPECT_TRUE(rank.losses.empty() || rank.losses == one.losses);
      EXPECT_TRUE(rank.active.empty() || rank.active == one.active);
      EXPECT_EQ(rank.lists, one.lists);
      EXPECT_EQ(rank.graphs.size(), one.graphs.size());
    }
    EXPECT_GE(tellers, 1U) << "nobody has the losses";
  }

  // Expects that a plan gives the result `want`. If the plan has several devices, two ranks must give it as well.
  void expect_same_by(const PlanChoice& choice, const Story& want) {
    expect_same(story(choice), want);
    if (choice.devices > 1) {
      expect_same_on_ranks(choice);
    }
  }
};

TEST_F(ActivePlans, CornerCasesGiveOneResult) {
  for (const auto& [kind, rows] : std::vector<std::pair<ActiveSpec::Kind, Rows>>{{ActiveSpec::kAll, kBf16Momentum},
                                                                                 {ActiveSpec::kSample, kExact},
                                                                                 {ActiveSpec::kSample, kFp8Plain},
                                                                                 {ActiveSpec::kSample, kLars},
                                                                                 {ActiveSpec::kKnn, kLambBf16},
                                                                                 {ActiveSpec::kKnn, kExact},
                                                                                 {ActiveSpec::kKnn, kExactBf16},
                                                                                 {ActiveSpec::kSample, kExactFp8},
                                                                                 {ActiveSpec::kKnn, kBf16Momentum}}) {
    use(model_of(kind, rows));
    SCOPED_TRACE(text_of(options_));
    const Story want = story({});
    expect_sound(want);
    for (const int shards : {1, 2, 3, 4}) {
      for (const PipelineKind pipeline : {PipelineKind::kGpipe, PipelineKind::kOneFOneB}) {
        const PlanChoice choice{.devices = shards,
                                .threads = 4,
                                .stages = std::min(shards, 2),
                                .micro_batches = pipeline == PipelineKind::kGpipe ? shards : 6,
                                .pipeline = pipeline,
                                .shards = shards,
                                .kept_blocks = shards % 2};
        if (!is_legal(prepared_.module, choice)) {
          continue;
        }
        SCOPED_TRACE(choice.text());
        expect_same_by(choice, want);
        if (HasFailure()) {
          return;
        }
      }
    }
  }
}

TEST_F(ActivePlans, RandomModelsAndPlansGiveOneResult) {
  constexpr uint32_t kSeed = 1406;
  const int models = std::getenv("XRUN_ALL_PLANS") == nullptr ? 20 : 1000;  // make test-plans
  constexpr int kPlans = 2;
  RecordProperty("seed", static_cast<int>(kSeed));
  Draws draws(kSeed);
  for (int i = 0; i < models; ++i) {
    use(draws.model());
    SCOPED_TRACE("seed " + std::to_string(kSeed) + ", model " + std::to_string(i) + ": " + text_of(options_));
    const Story want = story({});
    expect_sound(want);
    for (int j = 0; j < kPlans; ++j) {
      const PlanChoice choice = draws.plan(prepared_.module);
      SCOPED_TRACE(choice.text());
      expect_same_by(choice, want);
      if (HasFailure()) {
        return;
      }
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
