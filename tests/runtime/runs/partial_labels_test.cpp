// Labels that some samples lack: the loader writes a factor for each row, in one process and on ranks with broken
// samples. Also tests the stage `ignore`.
#include "graph/layouts/partial_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/augment/ignore.h"
#include "runtime/data/loader.h"
#include "runtime/train/evaluation/mean_of_rows.h"
#include "runtime/train/session/broken_samples.h"
#include "tests/runtime/data/data_support.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

using testing::Batch;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::on_worlds;

constexpr int64_t kSamples = 60;
constexpr int64_t kRows = 10;
constexpr int64_t kSteps = 6;

// The label is the sample's number modulo 4, and 3 means no label. Some pictures are broken.
class GappyReader final : public Reader {
 public:
  int64_t samples() const override { return kSamples; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return 4; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (field == 1) {
      out.set_integer(DType::kI32, sample % 4);
      return {};
    }
    if (sample % 5 == 2) {
      return Error{.code = "XG0412", .message = "the picture is torn"};
    }
    const std::array<int64_t, 3> shape{1, 1, 1};
    *reinterpret_cast<float*>(out.set_own(DType::kF32, shape)) = static_cast<float>(sample);
    return {};
  }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return "sample " + std::to_string(sample); }
  std::string describe() const override { return "gappy"; }

 private:
  std::vector<Field> fields_{{"image", testing::picture_type(1, 1, 1)}, {"label", testing::label_type(4)}};
};

Graph graph_with(const std::string& factor) {
  return testing::inputs({{"image", testing::picture_type(1, 1, 1)},
                          {"label", testing::label_type(4)},
                          {factor, {.dtype = DType::kF32, .dims = {kBatch}}}});
}

std::unique_ptr<SampleRows> gappy_rows(const Graph& graph) {
  const DataSpec data{
      .name = "d",
      .bindings = {
          {.target = "label", .field = "label", .stages = {{"ignore", {{"values", std::vector<int64_t>{3}}}, {}}}}}};
  return SampleRows::make("train", std::make_unique<GappyReader>(), data, graph).value();
}

// The labels and factors of all rows in all steps (-2 if this process does not read the label), and the numbers of
// labels.
struct Seen {
  std::vector<int32_t> labels;
  std::vector<float> factors;
  std::vector<int32_t> counts;
};

Seen train_on(std::vector<RowRange> wanted, Peers* peers, bool sums = false) {
  const Graph graph = graph_with(labelled_input("label"));
  auto loader = make_loader(gappy_rows(graph), {.batch = kRows, .seed = 4, .max_bad = 1, .sums_loss = sums}).value();
  Batch slot(graph, kRows);
  slot.view.rows = std::move(wanted);
  EXPECT_TRUE(loader->start(0, {&slot.view, 1}).ok());
  Seen seen;
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_TRUE(wait_for_batch(*loader, step, peers).ok());
    for (int64_t row = 0; row < kRows; ++row) {
      seen.labels.push_back(slot.view.wants(1, row) ? slot.integers(1)[row] : -2);
      seen.factors.push_back(slot.view.wants(2, row) ? slot.floats(2)[row] : -2);
      seen.counts.push_back(loader->labelled("label")[static_cast<size_t>(row)]);
    }
    EXPECT_THAT(loader->labelled("image"), IsEmpty());
    if (step + 1 < kSteps) {
      loader->release(step);
    }
  }
  loader->stop();
  return seen;
}

TEST(PartialLabels, FactorsTurnTheMeanOverRowsIntoAMeanOverLabels) {
  for (const bool sums : {false, true}) {
    const Seen seen = train_on({}, nullptr, sums);
    EXPECT_THAT(seen.labels, ::testing::Contains(-1));
    for (size_t begin = 0; begin < seen.labels.size(); begin += kRows) {
      const auto labels = std::span(seen.labels).subspan(begin, kRows);
      const auto count = std::ranges::count_if(labels, [](int32_t label) { return label >= 0; });
      ASSERT_GT(count, 0);
      for (size_t row = begin; row < begin + kRows; ++row) {
        EXPECT_TRUE(-1 <= seen.labels[row] && seen.labels[row] < 3);
        EXPECT_EQ(seen.counts[row], seen.labels[row] >= 0 ? 1 : 0);
        const float labelled = sums ? 1 : static_cast<float>(static_cast<double>(kRows) / static_cast<double>(count));
        EXPECT_EQ(seen.factors[row], seen.labels[row] >= 0 ? labelled : 0);
      }
    }
  }
}

// A rank that reads no labels still counts those of all rows, including samples that replaced broken samples of other
// ranks.
TEST(PartialLabels, RanksHaveTheFactorsOfOneProcess) {
  const Seen whole = train_on({}, nullptr);
  for (int ranks = 2; ranks <= 3; ++ranks) {
    std::vector<Seen> seen(static_cast<size_t>(ranks));
    on_worlds(ranks, [&](World& world) {
      const int64_t share = kRows / ranks;
      const RowRange pictures{world.rank() * share, world.rank() + 1 == ranks ? kRows : (world.rank() + 1) * share};
      const RowRange labels = world.rank() == 0 ? RowRange{} : RowRange{0, kRows};
      seen[static_cast<size_t>(world.rank())] = train_on({pictures, labels, {0, kRows}}, &world);
    });
    for (const Seen& one : seen) {
      EXPECT_EQ(one.factors, whole.factors);
      EXPECT_EQ(one.counts, whole.counts);
    }
  }
}

TEST(PartialLabels, FactorsOfHeadsIncludeClassWeights) {
  const Graph graph = graph_with(row_factor_input("label"));
  auto rows = gappy_rows(graph);
  EXPECT_EQ(rows->labels_of("label").value()[3], -1);
  rows->weigh(graph, "label", "label.class_weight", {0.5F, 1, 1.5F, 7});
  auto loader = make_loader(std::move(rows), {.batch = 4, .order = SampleOrder::kSequential, .max_bad = 1}).value();
  Batch slot(graph, 4);
  ASSERT_TRUE(loader->start(1, {&slot.view, 1}).ok());
  ASSERT_TRUE(loader->wait(1).ok());  // samples 4, 5, 6 and 7; sample 7 is broken, so another one replaces it
  const int32_t last = slot.integers(1)[3];
  const double each = 4.0 / (last < 0 ? 3 : 4);
  EXPECT_EQ(slot.floats(2)[0], static_cast<float>(each * 0.5));
  EXPECT_EQ(slot.floats(2)[1], static_cast<float>(each * 1));
  EXPECT_EQ(slot.floats(2)[2], static_cast<float>(each * 1.5));
  EXPECT_EQ(slot.floats(2)[3], last < 0 ? 0.0F : static_cast<float>(each * (0.5 + 0.5 * last)));
  loader->stop();
}

TEST(PartialLabels, AnEvaluationCountsTheLabelledRows) {
  const Graph graph = graph_with("other.input");
  auto source = make_row_source(gappy_rows(graph), {.max_bad = 1}).value();
  Batch slot(graph, kRows);
  source->begin(10, kRows, slot.view);
  ASSERT_TRUE(source->finish().ok());
  // Samples 12 and 17 are broken; samples 11, 15 and 19 have no label.
  const auto counts = source->labelled("label");
  EXPECT_THAT(std::vector<int32_t>(counts.begin(), counts.end()), ElementsAre(1, 0, 0, 1, 1, 0, 1, 0, 1, 0));
  EXPECT_FALSE(source->label("label", 11).value().has_value());
  EXPECT_EQ(source->label("label", 13).value(), 1);
}

TEST(PartialLabels, MeansWeightRowsByTheirNumbersOfLabels) {
  MeanOfRows mean;
  const std::vector<float> rows{1, 0.5F, NAN, 0};
  mean.add(rows, std::vector<int32_t>{1, 2, 0, 1});
  EXPECT_EQ(mean.count(), 4);
  EXPECT_EQ(mean.value(), 0.5);
  EXPECT_EQ(MeanOfRows().value(), 0);
}

TEST(Ignore, IgnoredTextsAreRemovedAndClassesRenumbered) {
  std::vector<std::string> texts{"", "-1", "a", "b", "c"};
  std::vector<std::string> unmatched;
  const CallSpec call{"ignore", {{"values", TextList{"b", "", "d"}}}, {}};
  const AugmentStep step = ignore_step(call, texts, unmatched);
  EXPECT_THAT(texts, ElementsAre("-1", "a", "c"));
  EXPECT_THAT(unmatched, ElementsAre("d"));
  AugmentScratch scratch;
  const auto made = [&](double number) {
    scratch.form = AugmentScratch::kNumber;
    scratch.number = number;
    EXPECT_TRUE(step.run(step, scratch, {}).ok());
    return scratch.number;
  };
  EXPECT_EQ(made(0), kNoLabel);
  EXPECT_EQ(made(1), 0);
  EXPECT_EQ(made(2), 1);
  EXPECT_EQ(made(3), kNoLabel);
  EXPECT_EQ(made(4), 2);
  // A number in the model's text stands for the cell with the same characters.
  const AugmentStep second = ignore_step({"ignore", {{"values", std::vector<int64_t>{-1}}}, {}}, texts, unmatched);
  EXPECT_THAT(texts, ElementsAre("a", "c"));
  EXPECT_EQ(second.values, std::vector<double>{0});
}

TEST(Ignore, MissingValuesAreIgnoredIfIgnoreAllowsThem) {
  std::vector<std::string> none;
  std::vector<std::string> unmatched;
  for (const bool missing : {false, true}) {
    const CallSpec call{"ignore", {{"values", std::vector<int64_t>{255, -1}}, {"missing", missing}}, {}};
    const AugmentStep step = ignore_step(call, none, unmatched);
    AugmentScratch scratch{.form = AugmentScratch::kNumber, .number = NAN};
    ASSERT_TRUE(step.run(step, scratch, {}).ok());
    EXPECT_EQ(scratch.number == kNoLabel, missing);
    for (const double number : {-1.0, 255.0, 7.0}) {
      scratch.number = number;
      ASSERT_TRUE(step.run(step, scratch, {}).ok());
      EXPECT_EQ(scratch.number, number == 7 ? 7 : kNoLabel);
    }
  }
}

}  // namespace
}  // namespace xrun::runtime
