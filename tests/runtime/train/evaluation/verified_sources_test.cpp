// Evaluations that verify the pairs of a source: mirror images, plans, templates, broken samples, and sources without
// pairs.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "graph/settings/pair_fields.h"
#include "graph/settings/template_pairs.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/train/evaluation/inference.h"
#include "runtime/train/evaluation/mirror.h"
#include "runtime/train/evaluation/verification.h"
#include "tests/runtime/runs/plan_maker.h"
#include "tests/runtime/runs/small_models.h"

namespace xrun::runtime::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSide = 6;

// Rows of pictures that form pairs; the pictures of a pair show one class if the number of the pair is not a multiple
// of 3.
struct PairRows final : RowSource {
  PairRows(const Graph& graph, const ModelOptions& options, int64_t samples) : rows(graph, options, samples) {}
  std::string_view name() const override { return rows.name(); }
  int64_t samples() const override { return rows.samples(); }
  Result<std::optional<int64_t>> label(const std::string& field, int64_t sample) override {
    if (broken_flags.contains(sample)) {
      return Error{ErrorKind::kContent, "XG0412", "no bool", ""};
    }
    return has_pairs && field == kPairField ? std::optional<int64_t>(sample / 2 % 3 == 0 ? 0 : 1) : std::nullopt;
  }
  const TemplatePairs* templates() const override { return pairs_of_templates; }
  void begin(int64_t first, int64_t count, const BatchView& batch) override {
    rows.begin(first, count, batch);
    first_ = first;
    count_ = count;
    for (int64_t row = 0; mirrored && row < count; ++row) {
      auto* const x = reinterpret_cast<float*>(batch.inputs[0]) + row * 3 * kSide * kSide;
      for (int64_t y = 0; y < kSide; ++y) {
        for (int64_t left = 0; left < kSide / 2; ++left) {
          std::swap_ranges(x + (y * kSide + left) * 3, x + (y * kSide + left + 1) * 3,
                           x + (y * kSide + kSide - 1 - left) * 3);
        }
      }
    }
  }
  // The faults of a batch are known when it has been read; the next batch begins before they are counted.
  Status finish() override {
    faults.clear();
    for (const int64_t sample : broken) {
      if (first_ <= sample && sample < first_ + count_) {
        faults.push_back({.row = sample - first_, .sample = "a.jpg", .message = "broken"});
      }
    }
    return rows.finish();
  }
  void cancel() override { rows.cancel(); }
  std::span<const BrokenRow> broken_rows() const override { return faults; }

  SyntheticRows rows;
  bool has_pairs = true;
  const TemplatePairs* pairs_of_templates = nullptr;
  bool mirrored = false;
  std::set<int64_t> broken;
  std::set<int64_t> broken_flags;
  std::vector<BrokenRow> faults;
  int64_t first_ = 0;
  int64_t count_ = 0;
};

class VerifiedSources : public ::testing::Test {
 protected:
  // A network of pictures, whose feature `lfw` verifies.
  Prepared prepare_with(const VerificationSpec& spec) {
    Module module = make_module(options_);
    const ValueId feature = module.graph.outputs[0].value;
    const auto node = call_op(module.graph, ops::find_op("verification")->def, {feature},
                              {{"flip", spec.flip}, {"folds", spec.folds}}, "metrics.lfw", Span{0, 1, 2});
    const ValueId value = module.graph.node(*node).outputs[0];
    module.train.eval = {{.name = "lfw", .value = value, .source = "val", .span = {}}};
    return prepare_for(module);
  }

  template <typename Body>
  void with_session(const Prepared& prepared, const PlanChoice& choice, const Body& body) {
    const auto program = make_program(prepared, choice, false);
    ASSERT_TRUE(program.ok()) << program.error().message;
    const auto devices = make_cpu_devices(program->threads);
    auto session = Session::create(prepared.inference, *program, *devices, {.isa = prepared.isa}).value();
    session->state().initialise(3);
    ASSERT_TRUE(session->weights_changed().ok());
    body(*session);
  }

  Result<Evaluation> evaluate_rows(const VerificationSpec& spec, PairRows& rows) {
    Result<Evaluation> evaluation = Error{ErrorKind::kWorld, "", "", ""};
    with_session(prepare_with(spec), {}, [&](Session& session) { evaluation = evaluate(session, {&rows}); });
    return evaluation;
  }

  ModelOptions options_{.input = 3 * kSide * kSide, .image = kSide, .head = true};
};

// The result from the features of all samples, and of mirrored samples.
VerifiedPairs by_features(Session& session, const ModelOptions& options, int64_t samples,
                          const VerificationSpec& spec) {
  ValueId feature;
  for (const NamedValue& output : session.module().graph.outputs) {
    feature = output.name == "feature" ? output.value : feature;
  }
  PairRows rows(session.module().graph, options, samples);
  const std::vector<float> plain = predict_floats(session, rows, feature, 0, samples).value();
  rows.mirrored = true;
  const std::vector<float> mirrored = predict_floats(session, rows, feature, 0, samples).value();
  EXPECT_NE(plain, mirrored);
  PairDistances distances(options.width);
  std::vector<ComparedPair> pairs;
  for (int64_t sample = 0; sample < samples; ++sample) {
    distances.add(&plain[static_cast<size_t>(sample * options.width)],
                  spec.flip ? &mirrored[static_cast<size_t>(sample * options.width)] : nullptr);
    if (sample % 2 == 1) {
      pairs.push_back({distances.squared().back(), sample / 2 % 3 != 0});
    }
  }
  return score_pairs(pairs, spec.folds);
}

std::vector<double> numbers_of(const VerifiedPairs& scored) {
  std::vector<double> numbers{static_cast<double>(scored.pairs), static_cast<double>(scored.different), scored.accuracy,
                              scored.deviation, scored.threshold};
  for (const TarAtFar& one : scored.tar_at_far) {
    numbers.insert(numbers.end(), {one.far, one.tar, one.deviation, one.measured});
  }
  for (const RocPoint& point : scored.roc) {
    numbers.insert(numbers.end(), {point.far, point.tar});
  }
  return numbers;
}

TEST_F(VerifiedSources, HaveTheSameNumbersUnderAnyPlan) {
  constexpr int64_t kSamples = 214;  // batches of 48 rows, so that pairs and batches end at different samples
  for (const VerificationSpec& spec : {VerificationSpec{.flip = true, .folds = 10}, {.flip = false, .folds = 7}}) {
    const Prepared prepared = prepare_with(spec);
    std::vector<double> first;
    for (const PlanChoice& choice : std::vector<PlanChoice>{
             {}, {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
      with_session(prepared, choice, [&](Session& session) {
        PairRows rows(session.module().graph, options_, kSamples);
        const auto evaluation = evaluate(session, {&rows});
        ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
        ASSERT_EQ(evaluation->verified.size(), 1U);
        const VerifiedPairs& verified = evaluation->verified[0];
        EXPECT_EQ(verified.key, "lfw");
        EXPECT_EQ(verified.pairs, kSamples / 2);
        EXPECT_EQ(verified.different, 36);
        EXPECT_EQ(verified.tar_at_far.size(), 2U);
        ASSERT_EQ(evaluation->metrics.size(), 1U);
        EXPECT_EQ(evaluation->metrics[0].key, "lfw");
        EXPECT_EQ(evaluation->metrics[0].value, verified.accuracy);
        first = first.empty() ? numbers_of(verified) : first;
        EXPECT_EQ(numbers_of(verified), first) << choice.text();
        EXPECT_EQ(numbers_of(verified), numbers_of(by_features(session, options_, kSamples, spec))) << choice.text();
      });
    }
  }
}

// Templates of seven samples from three media; each template forms a pair with the next three.
TemplatePairs templates_of(int64_t samples) {
  TemplatePairs made;
  for (uint32_t sample = 0; sample < samples; ++sample) {
    made.samples.push_back({sample / 7, sample / 7 * 3 + sample % 7 / 3});
  }
  made.templates = made.samples.back().of_template + 1;
  for (uint32_t first = 0; first + 3 < made.templates; ++first) {
    for (uint32_t next = 1; next <= 3; ++next) {
      made.pairs.push_back({.first = first, .second = (first + next) & 0xFFFF, .same = next == 1 ? 1U : 0U});
    }
  }
  return made;
}

TEST_F(VerifiedSources, TemplatesHaveTheSameNumbersUnderAnyPlan) {
  constexpr int64_t kSamples = 215;  // batches of 48 rows, so that templates and batches end at different samples
  const TemplatePairs templates = templates_of(kSamples);
  for (const VerificationSpec& spec : {VerificationSpec{.flip = true, .folds = 1}, {.flip = false, .folds = 5}}) {
    const Prepared prepared = prepare_with(spec);
    std::vector<double> first;
    for (const PlanChoice& choice : std::vector<PlanChoice>{
             {}, {.devices = 4, .threads = 4, .stages = 2, .replicas = 2, .micro_batches = 4, .shards = 3}}) {
      with_session(prepared, choice, [&](Session& session) {
        PairRows rows(session.module().graph, options_, kSamples);
        rows.pairs_of_templates = &templates;
        rows.broken = {3, 47, 48, 49, 50, 51, 52, 53, 54, 55};  // all samples of template 7
        const auto evaluation = evaluate(session, {&rows});
        ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
        ASSERT_EQ(evaluation->verified.size(), 1U);
        const VerifiedPairs& verified = evaluation->verified[0];
        EXPECT_EQ(verified.left_out, 6);
        EXPECT_EQ(verified.pairs, std::ssize(templates.pairs) - 6);
        first = first.empty() ? numbers_of(verified) : first;
        EXPECT_EQ(numbers_of(verified), first) << choice.text();
      });
    }
  }
}

TEST_F(VerifiedSources, TemplatesWithFewerPairsThanFoldsAreRejected) {
  const TemplatePairs templates = templates_of(7 * 6);
  PairRows rows(make_module(options_).graph, options_, 7 * 6);
  rows.pairs_of_templates = &templates;
  const auto evaluation = evaluate_rows({}, rows);
  ASSERT_FALSE(evaluation.ok());
  EXPECT_THAT(evaluation.error().message, HasSubstr("into 10 folds, but it has 9 pairs"));
  EXPECT_EQ(evaluation.error().help, "write folds=9 or less");
}

TEST_F(VerifiedSources, AnOutputIsVerifiedWithoutAnEntryInTheModule) {
  with_session(prepare_for(make_module(options_)), {}, [&](Session& session) {
    PairRows rows(session.module().graph, options_, 120);
    const VerificationSpec spec{.flip = true, .folds = 5};
    const Measure own{
        .key = "cfp", .source = "val", .value = session.module().graph.outputs[0].value, .verification = spec};
    const auto evaluation = evaluate(session, {&rows}, nullptr, nullptr, {}, {.own = {own}});
    ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
    ASSERT_EQ(evaluation->metrics.size(), 1U) << "the accuracy of the module is not measured on this source";
    EXPECT_EQ(evaluation->metrics[0].key, "cfp");
    EXPECT_EQ(numbers_of(evaluation->verified[0]), numbers_of(by_features(session, options_, 120, spec)));
  });
}

struct WorkLog final : EventSink {
  void on(const Event& event) override {
    if (const auto* work = std::get_if<WorkEvent>(&event)) {
      works.emplace_back(work->work, std::string(work->subject));
    }
  }
  std::vector<std::pair<Work, std::string>> works;
};

TEST_F(VerifiedSources, TheComparisonAfterTheLastBatchIsWorkWithoutADeadline) {
  for (const bool verifies : {true, false}) {
    with_session(verifies ? prepare_with({}) : prepare_for(make_module(options_)), {}, [&](Session& session) {
      PairRows rows(session.module().graph, options_, 120);
      WorkLog log;
      ASSERT_TRUE(evaluate(session, {&rows}, &log).ok());
      ASSERT_FALSE(log.works.empty());
      const std::pair<Work, std::string> batch(Work::kEvaluate, "val");
      const std::pair<Work, std::string> comparison(Work::kPrepare, "the results of val");
      EXPECT_EQ(log.works.front(), batch);
      EXPECT_EQ(log.works.back(), verifies ? comparison : batch);
    });
  }
}

TEST_F(VerifiedSources, PairsWithABrokenSampleOrFlagAreLeftOut) {
  PairRows rows(make_module(options_).graph, options_, 200);
  rows.broken = {0, 47, 48, 49, 199};  // samples of four pairs, on both sides of the end of a batch
  rows.broken_flags = {0, 20};         // the flags of a pair that is left out anyway, and of another one
  const auto evaluation = evaluate_rows({}, rows);
  ASSERT_TRUE(evaluation.ok()) << evaluation.error().message;
  EXPECT_EQ(evaluation->verified[0].left_out, 5);
  EXPECT_EQ(evaluation->verified[0].pairs, 95);
  EXPECT_EQ(evaluation->sources[0].broken, 5);
}

TEST_F(VerifiedSources, ASourceThatCannotBeVerifiedIsRejected) {
  const Graph graph = make_module(options_).graph;
  const auto fault = [&](int64_t samples, const VerificationSpec& spec, const std::function<void(PairRows&)>& change) {
    PairRows rows(graph, options_, samples);
    change(rows);
    const auto evaluation = evaluate_rows(spec, rows);
    return evaluation.ok() ? std::string("none") : evaluation.error().code + " " + evaluation.error().message;
  };
  EXPECT_THAT(fault(100, {}, [](PairRows& rows) { rows.has_pairs = false; }),
              HasSubstr("XG0420 the samples of source"));
  EXPECT_THAT(fault(101, {}, [](PairRows&) {}), HasSubstr("XG0420 source `val` has 101 samples"));
  EXPECT_THAT(fault(18, {}, [](PairRows&) {}), HasSubstr("into 10 folds, but it has 9 pairs"));
  EXPECT_EQ(fault(18, {.folds = 9}, [](PairRows&) {}), "none");
  EXPECT_THAT(fault(20, {}, [](PairRows& rows) { rows.broken = {3}; }), HasSubstr("XG0408 only 9 of 10 pairs"));
}

TEST(MirrorPictures, ExchangesLeftAndRightOfTheRowsOfThisProcess) {
  Graph graph;
  graph.add_input("x", {DType::kF32, {kBatch, 2, 2, 3}});
  graph.add_input("y", {DType::kF32, {kBatch, 4}});
  std::vector<float> x(3 * 12);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(i);
  }
  std::vector<float> y{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> y_before = y;
  BatchView batch{.inputs = {reinterpret_cast<std::byte*>(x.data()), reinterpret_cast<std::byte*>(y.data())},
                  .rows = {{1, 3}, {0, 3}}};
  mirror_pictures(graph, batch, 2);
  // A row has two lines of three pixels of two channels. Row 0 is read by another process, row 2 is not in use.
  EXPECT_THAT(std::vector(x.begin() + 12, x.begin() + 24), ElementsAre(16, 17, 14, 15, 12, 13, 22, 23, 20, 21, 18, 19));
  EXPECT_EQ(x[0], 0);
  EXPECT_EQ(x[24], 24);
  EXPECT_EQ(y, y_before);
}

}  // namespace
}  // namespace xrun::runtime::testing
