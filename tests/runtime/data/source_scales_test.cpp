// Means and deviations of columns, compared with a simple computation on random tables.
#include "runtime/data/source_scales.h"

#include <cmath>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <limits>
#include <optional>

#include "graph/base/random.h"
#include "tests/runtime/data/data_files.h"

namespace xrun::runtime {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const CallSpec kStandardize{"standardize", {}, {}};
const CallSpec kFill{"fill_missing", {{"value", 0.0}}, {}};

class Standardized : public Files {
 protected:
  static Graph graph(int64_t width) { return inputs({{"x", {.dtype = DType::kF32, .dims = {kBatch, width}}}}); }

  // The data of t.csv, or of another file, for an input x that takes the first `width` columns.
  DataSpec data(std::vector<CallSpec> stages, int64_t width, const std::string& file = "t.csv") const {
    stages.insert(stages.begin(), {"columns", {{"range", std::vector<int64_t>{0, width}}}, {}});
    return {.name = "d",
            .sources = {source("train", "csv", {{"path", file}, {"header", true}, {"delimiter", std::string(",")}},
                               root_.string())},
            .bindings = {{.target = "x", .field = "row", .stages = std::move(stages)}}};
  }
  std::unique_ptr<SampleRows> open(const DataSpec& data, int64_t width) const {
    auto rows = SampleRows::open(data, "train", graph(width));
    EXPECT_TRUE(rows.ok()) << rows.error().message;
    return std::move(rows).value();
  }
  // The input of a sample; nullopt if it is broken.
  static std::optional<std::vector<float>> row(const SampleRows& rows, int64_t sample, int64_t width) {
    const Graph of = graph(width);
    Batch batch(of, 1);
    AugmentScratch scratch;
    const Status done = rows.fill(sample, {}, scratch, batch.view, 0);
    if (!done.ok()) {
      EXPECT_EQ(done.error().code, "XG0412") << done.error().message;
      return std::nullopt;
    }
    return std::vector<float>(batch.floats(0), batch.floats(0) + width);
  }
};

// The mean and the deviation of values, in long double.
std::pair<double, double> reference(const std::vector<double>& values) {
  long double mean = 0;
  for (const double x : values) {
    mean += static_cast<long double>(x) / static_cast<long double>(values.size());
  }
  long double sum = 0;
  for (const double x : values) {
    sum += (x - mean) * (x - mean);
  }
  return {static_cast<double>(mean), static_cast<double>(std::sqrt(sum / static_cast<long double>(values.size())))};
}

TEST_F(Standardized, RandomTablesEqualASimpleComputation) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const RandomStream random(seed, 3);
    const auto width = static_cast<int64_t>(1 + random.bits(0) % 6);
    const auto count = static_cast<int64_t>(2 + random.bits(1) % 200);
    const bool fills = random.bits(2) % 2 == 0;
    std::string text;
    for (int64_t c = 0; c < width; ++c) {
      text += fmt::format("{}c{}", c == 0 ? "" : ",", c);
    }
    std::vector<std::vector<double>> cells;  // NaN: missing
    std::vector<bool> broken;
    for (int64_t r = 0; r < count; ++r) {
      cells.emplace_back();
      broken.push_back(false);
      for (int64_t c = 0; c < width; ++c) {
        const auto at = static_cast<uint64_t>(10 + r * width + c);
        const uint64_t bits = random.bits(at);
        // Columns have offsets far above their spread, where one pass over the squares would lose all digits.
        const double value = (c % 2 == 0 ? 1e6 : -3) + static_cast<double>(bits % 10'007) / 977;
        const bool missing = r > 1 && bits % 13 == 0;
        const bool text_cell = r > 1 && bits % 29 == 1;
        cells.back().push_back(missing ? std::numeric_limits<double>::quiet_NaN() : value);
        broken.back() = broken.back() || text_cell || (missing && !fills);
        text += fmt::format("{}{}", c == 0 ? "\n" : ",",
                            text_cell ? "n/k"
                            : missing ? "?"
                                      : fmt::format("{:.17g}", value));
      }
    }
    write("t.csv", text + "\n");
    std::vector<CallSpec> stages{kStandardize};
    if (fills) {
      stages.push_back(kFill);
    }
    const auto rows = open(data(stages, width), width);
    std::vector<Error> warnings;
    const auto scales = rows->settle_scales({}, warnings);
    ASSERT_TRUE(scales.ok()) << scales.error().message;
    ASSERT_EQ(scales->size(), 1u);
    EXPECT_EQ((*scales)[0].input, "x");
    std::vector<std::pair<double, double>> expected;
    for (int64_t c = 0; c < width; ++c) {
      std::vector<double> values;
      for (int64_t r = 0; r < count; ++r) {
        const double x = cells[static_cast<size_t>(r)][static_cast<size_t>(c)];
        if (!broken[static_cast<size_t>(r)] && !std::isnan(x)) {
          values.push_back(x);
        }
      }
      expected.push_back(reference(values));
      const auto [mean, deviation] = expected.back();
      EXPECT_NEAR((*scales)[0].means[static_cast<size_t>(c)], mean, 1e-12 * (1 + std::abs(mean)));
      EXPECT_NEAR((*scales)[0].deviations[static_cast<size_t>(c)], deviation, 1e-9 * deviation);
    }
    for (int64_t r = 0; r < count; ++r) {
      const auto made = row(*rows, r, width);
      ASSERT_EQ(made.has_value(), !broken[static_cast<size_t>(r)]) << "row " << r;
      for (int64_t c = 0; made && c < width; ++c) {
        const double x = cells[static_cast<size_t>(r)][static_cast<size_t>(c)];
        const auto [mean, deviation] = expected[static_cast<size_t>(c)];
        EXPECT_NEAR((*made)[static_cast<size_t>(c)], std::isnan(x) ? 0 : (x - mean) / deviation, 2e-6);
      }
    }
    std::vector<Error> more;
    EXPECT_EQ(open(data(stages, width), width)->settle_scales({}, more).value(), *scales) << "the same bits again";
  }
}

TEST_F(Standardized, OtherSourcesAreStandardizedByTheNumbersOfTraining) {
  write("t.csv", "a,b\n0,10\n2,10\n");
  write("other.csv", "a,b\n5,12\n");
  const auto train = open(data({kStandardize}, 2), 2);
  std::vector<Error> warnings;
  const InputScales scales = train->settle_scales({}, warnings).value();
  EXPECT_EQ(scales, (InputScales{{"x", {1, 10}, {1, 1}}}));
  ASSERT_EQ(warnings.size(), 1u) << "a column that does not vary";
  EXPECT_EQ(warnings[0].code, "XG0429");
  EXPECT_THAT(warnings[0].message, HasSubstr("column `b` does not vary"));
  const auto other = open(data({kStandardize}, 2, "other.csv"), 2);
  EXPECT_EQ(other->scale_by({}).error().code, "XG0705") << "the checkpoint has no means";
  ASSERT_TRUE(other->scale_by(scales).ok());
  EXPECT_THAT(*row(*other, 0, 2), ElementsAre(4, 2));
  const auto resumed = open(data({kStandardize}, 2, "other.csv"), 2);
  EXPECT_EQ(resumed->settle_scales(scales, warnings).value(), scales) << "a run that continues measures nothing";
  EXPECT_THAT(*row(*resumed, 0, 2), ElementsAre(4, 2));
  const auto narrow = open(data({kStandardize}, 1, "other.csv"), 1);
  ASSERT_TRUE(narrow->scale_by(scales).ok());
  AugmentScratch scratch;
  const Graph of = graph(1);
  Batch batch(of, 1);
  EXPECT_EQ(narrow->fill(0, {}, scratch, batch.view, 0).error().code, "XG0404") << "training had two columns";
}

TEST_F(Standardized, ColumnsWithoutValuesAndTablesWithoutSoundRowsAreReported) {
  write("t.csv", "a,b\n?,1\n,2\n");
  std::vector<Error> warnings;
  EXPECT_EQ(open(data({kStandardize, kFill}, 2), 2)->settle_scales({}, warnings).value(),
            (InputScales{{"x", {0, 1.5}, {1, 0.5}}}));
  EXPECT_EQ(warnings.size(), 1u);
  const auto all = open(data({kStandardize}, 2), 2)->settle_scales({}, warnings);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().code, "XG0408");
  EXPECT_THAT(all.error().message, HasSubstr("t.csv:3: column 0 (`a`) is a missing value"));
  const std::atomic<bool> stop{true};
  EXPECT_EQ(open(data({kStandardize}, 2), 2)->settle_scales({}, warnings, &stop).error().kind, ErrorKind::kInterrupted);
}

TEST_F(Standardized, OneValueIsRepeatedExactlyAndItsRoundedMeanIsNotADeviation) {
  std::string text = "a\n";
  for (int i = 0; i < 10; ++i) {
    text += "0.1\n";  // their rounded mean differs from 0.1
  }
  write("t.csv", text);
  std::vector<Error> warnings;
  const auto rows = open(data({kStandardize}, 1), 1);
  EXPECT_EQ(rows->settle_scales({}, warnings).value(), (InputScales{{"x", {0.1}, {1}}}));
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_THAT(*row(*rows, 3, 1), ElementsAre(0));
}

TEST_F(Standardized, StagesThatCannotStandardizeAreRejected) {
  write("t.csv", "a,b\n1,2\n");
  const auto code = [&](std::vector<CallSpec> stages) {
    const auto rows = SampleRows::open(data(std::move(stages), 2), "train", graph(2));
    return rows.ok() ? "" : rows.error().code;
  };
  EXPECT_EQ(code({kStandardize, kStandardize}), "XG0409");
  EXPECT_EQ(code({kStandardize, {"scale", {{"k", 2.0}}, {}}}), "");
  const AugmentDef* def = data_registry().find_augment("standardize");
  const Field picture{"pixels", {.dtype = DType::kU8, .dims = {kBatch, 3, 8, 8}}};
  EXPECT_EQ(def->infer(picture, {}).error().code, "XG0409");
  const Field wide{"row", {.dtype = DType::kF32, .dims = {kBatch, 65'537}}};
  EXPECT_EQ(def->infer(wide, {}).error().code, "XG0409");
}

}  // namespace
}  // namespace xrun::runtime
