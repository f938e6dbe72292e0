// Ranks that read only their own rows get the samples of one process, whichever rank finds a broken sample.
#include "runtime/train/session/broken_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/data/loader.h"
#include "tests/runtime/data/data_support.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

using testing::Batch;
using testing::on_worlds;

constexpr int64_t kSamples = 120;
constexpr int64_t kRows = 12;  // rows per batch
constexpr int64_t kSteps = 10;

// A reader with two fields that are broken in some samples: pictures of a single value, and labels that equal the
// sample's number.
class TornReader final : public Reader {
 public:
  int64_t samples() const override { return kSamples; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return kSamples; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (is_torn(sample, field)) {
      return Error{.code = "XG0412", .message = field == 0 ? "the picture\nis torn" : "the label is torn"};
    }
    if (field == 1) {
      out.set_integer(DType::kI32, sample);
    } else {
      const std::array<int64_t, 3> shape{1, 1, 1};
      *reinterpret_cast<float*>(out.set_own(DType::kF32, shape)) = static_cast<float>(sample);
    }
    return {};
  }
  // Two fifths of the pictures and a seventh of the labels are broken.
  static bool is_torn(int64_t sample, int field) { return field == 0 ? sample % 5 < 2 : sample % 7 == 3; }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return "sample " + std::to_string(sample); }
  std::string describe() const override { return "torn"; }

 private:
  std::vector<Field> fields_{{"image", testing::picture_type(1, 1, 1)}, {"label", testing::label_type(kSamples)}};
};

Graph graph() {
  return testing::inputs({{"image", testing::picture_type(1, 1, 1)}, {"label", testing::label_type(kSamples)}});
}

std::unique_ptr<SampleRows> torn_rows(const Graph& graph) {
  return SampleRows::make("train", std::make_unique<TornReader>(), {.name = "d"}, graph).value();
}

// The rows of a run's batches that one process reads.
struct Seen {
  std::vector<std::pair<float, int32_t>> rows;  // rows of all steps; -1 in rows that the process does not read
  std::set<std::string> broken;                 // samples that this process reports as broken
};

// Loads the batches. From step `halved_at` on, a step has half as many rows; -1: never.
Seen train_on(std::vector<RowRange> wanted, Peers* peers, int64_t halved_at = -1) {
  const Graph inputs = graph();
  Seen seen;
  auto loader = make_loader(torn_rows(inputs),
                            {.batch = kRows,
                             .seed = 4,
                             .max_bad = 1,
                             .on_bad =
                                 [&](const std::string& fault) {
                                   EXPECT_TRUE(seen.broken.insert(fault.substr(0, fault.find(" of source"))).second)
                                       << "told twice: " << fault;
                                 }})
                    .value();
  Batch slot(inputs, kRows);
  slot.view.rows = std::move(wanted);
  EXPECT_TRUE(loader->start(0, {&slot.view, 1}).ok());
  int64_t rows = kRows;
  for (int64_t step = 0; step < kSteps; ++step) {
    if (step == halved_at) {
      loader->stop();
      rows = kRows / 2;
      loader->resize({.first = step, .rows = rows, .begin = step * kRows});
      EXPECT_TRUE(loader->start(step, {&slot.view, 1}).ok());
    }
    const Status ready = wait_for_batch(*loader, step, peers);
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    for (int64_t row = 0; row < rows; ++row) {
      seen.rows.emplace_back(slot.view.wants(0, row) ? slot.floats(0)[row] : -1.0F,
                             slot.view.wants(1, row) ? slot.integers(1)[row] : -1);
    }
    if (step + 1 < kSteps) {
      loader->release(step);  // the batch after the last step is not read, since its faults would belong to no step
    }
  }
  loader->stop();
  return seen;
}

TEST(BrokenSamplesOfRanks, RanksHaveTheSamplesOfOneProcess) {
  const Seen whole = train_on({}, nullptr);
  for (const auto& [picture, label] : whole.rows) {
    ASSERT_EQ(picture, static_cast<float>(label));
    ASSERT_FALSE(TornReader::is_torn(label, 0) || TornReader::is_torn(label, 1));
  }
  for (int ranks = 2; ranks <= 3; ++ranks) {
    std::vector<Seen> seen(static_cast<size_t>(ranks));
    on_worlds(ranks, [&](World& world) {
      // Each rank reads its share of the pictures. Rank 0 reads no labels, and the other ranks read all of them.
      const int64_t share = kRows / ranks;
      const RowRange labels = world.rank() == 0 ? RowRange{} : RowRange{0, kRows};
      seen[static_cast<size_t>(world.rank())] =
          train_on({{world.rank() * share, (world.rank() + 1) * share}, labels}, &world);
    });
    for (const Seen& one : seen) {
      EXPECT_EQ(one.broken, whole.broken);
      ASSERT_EQ(one.rows.size(), whole.rows.size());
      for (size_t row = 0; row < whole.rows.size(); ++row) {
        const auto& [picture, label] = one.rows[row];
        EXPECT_TRUE(picture == -1 || picture == whole.rows[row].first) << "row " << row;
        EXPECT_TRUE(label == -1 || label == whole.rows[row].second) << "row " << row;
      }
    }
  }
}

// Rows are filled ahead. If the size of a step then changes, other samples take these rows, and faults found earlier
// must not be reported for them.
TEST(BrokenSamplesOfRanks, RanksHaveTheSamplesOfOneProcessIfStepsChangeTheirSize) {
  const int64_t halved_at = kSteps / 2;
  const Seen whole = train_on({}, nullptr, halved_at);
  std::vector<Seen> seen(2);
  on_worlds(2, [&](World& world) {
    const bool leads = world.rank() == 0;
    const RowRange pictures = leads ? RowRange{0, kRows / 4} : RowRange{kRows / 4, kRows};
    seen[static_cast<size_t>(world.rank())] =
        train_on({pictures, leads ? RowRange{} : RowRange{0, kRows}}, &world, halved_at);
  });
  for (const Seen& one : seen) {
    ASSERT_EQ(one.rows.size(), whole.rows.size());
    for (size_t row = 0; row < whole.rows.size(); ++row) {
      const auto& [picture, label] = one.rows[row];
      EXPECT_TRUE(picture == -1 || picture == whole.rows[row].first) << "row " << row;
      EXPECT_TRUE(label == -1 || label == whole.rows[row].second) << "row " << row;
    }
  }
}

TEST(BrokenSamplesOfRanks, TooManyBrokenSamplesEndTheRunOfAllRanks) {
  on_worlds(2, [&](World& world) {
    const Graph inputs = graph();
    // Rank 0 reads only labels, few of which are broken. It learns from rank 1 that pictures are broken.
    auto loader = make_loader(torn_rows(inputs), {.batch = kRows, .seed = 4, .max_bad = 0.2}).value();
    Batch slot(inputs, kRows);
    slot.view.rows =
        world.rank() == 0 ? std::vector<RowRange>{{0, 0}, {0, kRows}} : std::vector<RowRange>{{0, kRows}, {0, 0}};
    ASSERT_TRUE(loader->start(0, {&slot.view, 1}).ok());
    Status done;
    for (int64_t step = 0; step < kSteps && done.ok(); ++step) {
      done = wait_for_batch(*loader, step, &world);
      if (done.ok()) {
        loader->release(step);
      }
    }
    loader->stop();
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, "XG0408");
  });
}

TEST(BrokenSamplesOfRanks, AreBrokenForAllRanksInAnEvaluation) {
  const auto evaluate = [](std::vector<RowRange> wanted, Peers* peers) {
    const Graph inputs = graph();
    auto source = make_row_source(torn_rows(inputs), {.max_bad = 1}).value();
    Batch slot(inputs, kRows);
    slot.view.rows = std::move(wanted);
    std::vector<std::pair<int64_t, std::string>> broken;
    for (int64_t first = 0; first < kSamples; first += kRows) {
      source->begin(first, kRows, slot.view);
      const Status done = finish_rows(*source, peers, {});
      EXPECT_TRUE(done.ok()) << done.error().message;
      for (const BrokenRow& row : source->broken_rows()) {
        broken.emplace_back(first + row.row, row.sample);
        EXPECT_TRUE(!slot.view.wants(1, row.row) || slot.integers(1)[row.row] == 0)
            << "rows of broken samples are zero";
      }
    }
    return broken;
  };
  const auto whole = evaluate({}, nullptr);
  EXPECT_GT(whole.size(), 50U);
  on_worlds(2, [&](World& world) {
    EXPECT_EQ(evaluate(world.rank() == 0 ? std::vector<RowRange>{{0, kRows}, {0, 0}}
                                         : std::vector<RowRange>{{0, 0}, {0, kRows}},
                       &world),
              whole);
  });
}

}  // namespace
}  // namespace xrun::runtime
