// Batches of mixed samples: their rows, labels and shares, for different threads, first steps and sizes of steps, and
// on ranks that find broken samples.
#include "runtime/data/mixed_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <set>
#include <utility>

#include "graph/layouts/mixed_labels.h"
#include "runtime/data/loader.h"
#include "runtime/train/session/broken_samples.h"
#include "tests/runtime/data/data_support.h"
#include "tests/runtime/runs/rank_worlds.h"

namespace xrun::runtime {
namespace {

using testing::Batch;
using testing::label_type;
using testing::on_worlds;
using testing::picture_type;

constexpr int64_t kSamples = 131;
constexpr int64_t kRows = 12;
constexpr int64_t kClasses = 200;
constexpr uint64_t kSeed = 4;

// The positions of the inputs in `graph`.
enum Place : size_t { kImage, kLabel, kPartner, kShare, kPartnerShare, kWeight, kPartnerWeight };

Graph graph() {
  const TensorType numbers{.dtype = DType::kF32, .dims = {kBatch}};
  return testing::inputs({{"image", picture_type(1, 2, 3)},
                          {"label", label_type(kClasses)},
                          {partner_label("label"), label_type(kClasses)},
                          {label_share("image"), numbers},
                          {partner_share("image"), numbers},
                          {"label.class_weight", numbers},
                          {partner_weight("label"), numbers}});
}

// The pixels of a picture are 1000 times the sample's number, plus 0 to 5; the label is the sample's number. If the
// reader is torn, some pictures and some labels are broken.
class NumberedReader final : public Reader {
 public:
  explicit NumberedReader(bool torn) : torn_(torn) {}
  int64_t samples() const override { return kSamples; }
  const std::vector<Field>& fields() const override { return fields_; }
  int64_t classes() const override { return kClasses; }
  Status read(int64_t sample, int field, FieldValue& out) const override {
    if (is_torn(sample, field)) {
      return Error{.code = "XG0412", .message = field == 0 ? "the picture is torn" : "the label is torn"};
    }
    if (field == 1) {
      out.set_integer(DType::kI32, sample);
      return {};
    }
    const std::array<int64_t, 3> shape{1, 2, 3};
    auto* pixels = reinterpret_cast<float*>(out.set_own(DType::kF32, shape));
    for (int i = 0; i < 6; ++i) {
      pixels[i] = static_cast<float>(1000 * sample + i);
    }
    return {};
  }
  bool is_torn(int64_t sample, int field) const { return torn_ && (field == 0 ? sample % 5 == 1 : sample % 7 == 3); }
  std::string class_name(int64_t) const override { return ""; }
  std::string sample_name(int64_t sample) const override { return "sample " + std::to_string(sample); }
  std::string describe() const override { return "numbered"; }

 private:
  bool torn_;
  std::vector<Field> fields_{{"image", picture_type(1, 2, 3)}, {"label", label_type(kClasses)}};
};

struct Setting {
  bool torn = false;
  bool one_label = false;
  int workers = 1;
  double p = 0.8;
};

CallSpec stage(const std::string& name, const Setting& setting) {
  return {name, {{"alpha", 0.5}, {"p", setting.p}, {"one_label", setting.one_label}}, {}};
}

DataSpec data_of(const Setting& setting) {
  return {.name = "d",
          .bindings = {{.target = "image",
                        .field = "image",
                        .stages = {{"random_flip", {}, {}}, stage("mixup", setting), stage("cutmix", setting)}}}};
}

std::vector<float> weights() {
  std::vector<float> weights(kClasses);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(i) / 8;
  }
  return weights;
}

std::unique_ptr<SampleRows> rows_of(const Graph& graph, const Setting& setting) {
  auto rows =
      SampleRows::make("train", std::make_unique<NumberedReader>(setting.torn), data_of(setting), graph).value();
  rows->weigh(graph, "label", "label.class_weight", weights());
  return rows;
}

// One row of a batch, without the inputs that the process does not read.
struct Row {
  std::array<float, 6> pixels{};
  int32_t label = -1, partner = -1;
  float share = -1, partner_share = -1, weight = -1, partner_weight = -1;
  bool operator==(const Row&) const = default;
};

Row row_at(const Batch& batch, int64_t row) {
  Row seen;
  const auto& view = batch.view;
  const auto number = [&](Place place, float& to) { to = view.wants(place, row) ? batch.floats(place)[row] : -1; };
  if (view.wants(kImage, row)) {
    std::copy_n(batch.floats(kImage) + 6 * row, 6, seen.pixels.begin());
  }
  seen.label = view.wants(kLabel, row) ? batch.integers(kLabel)[row] : -1;
  seen.partner = view.wants(kPartner, row) ? batch.integers(kPartner)[row] : -1;
  number(kShare, seen.share);
  number(kPartnerShare, seen.partner_share);
  number(kWeight, seen.weight);
  number(kPartnerWeight, seen.partner_weight);
  return seen;
}

// Loads the steps [first, first + steps), each with `rows` rows.
std::vector<Row> load(const Setting& setting, int64_t first, int64_t steps, std::vector<RowRange> wanted = {},
                      Peers* peers = nullptr, int64_t rows = kRows) {
  const Graph inputs = graph();
  auto loader =
      make_loader(rows_of(inputs, setting), {.batch = rows, .seed = kSeed, .max_bad = 1, .workers = setting.workers})
          .value();
  Batch slot(inputs, rows);
  slot.view.rows = std::move(wanted);
  EXPECT_TRUE(loader->start(first, {&slot.view, 1}).ok());
  std::vector<Row> seen;
  for (int64_t step = first; step < first + steps; ++step) {
    const Status ready = wait_for_batch(*loader, step, peers);
    EXPECT_TRUE(ready.ok()) << ready.error().message;
    for (int64_t row = 0; row < rows; ++row) {
      seen.push_back(row_at(slot, row));
    }
    if (step + 1 < first + steps) {
      loader->release(step);
    }
  }
  loader->stop();
  return seen;
}

// The row that SampleRows makes of two samples, without a loader.
Row row_of(const SampleRows& rows, const Graph& inputs, const SamplePlace& own, const SamplePlace& partner, Mix& mix) {
  Batch one(inputs, 1);
  AugmentScratch scratch;
  const auto drawn = [](const SamplePlace& place) {
    return DrawnSample{place.sample,
                       {kSeed, static_cast<uint64_t>(place.pass), static_cast<uint64_t>(place.sample), true}};
  };
  EXPECT_TRUE(rows.fill(own.sample, drawn(own).key, scratch, one.view, 0).ok());
  auto mixed = rows.mix(drawn(own), drawn(partner), scratch, one.view, 0);
  EXPECT_TRUE(mixed.ok());
  mix = mixed.value();
  return row_at(one, 0);
}

TEST(MixedRows, ARowIsMixedWithTheRowBeforeItInTheBatch) {
  const Graph inputs = graph();
  const Setting setting;
  const auto rows = rows_of(inputs, setting);
  const SampleSequence order(SampleOrder::kShuffled, kSamples, kSeed);
  const auto seen = load(setting, 0, 20);
  std::set<Mix::Kind> kinds;
  for (int64_t position = 0; position < std::ssize(seen); ++position) {
    const int64_t row = position % kRows;
    const SamplePlace own = order.at(position);
    const SamplePlace partner = order.at(row == 0 ? position + kRows - 1 : position - 1);
    Mix mix;
    const Row want = row_of(*rows, inputs, own, partner, mix);
    const Row& got = seen[static_cast<size_t>(position)];
    ASSERT_EQ(got, want) << position;
    kinds.insert(mix.kind);
    // Computes by hand which classes a row has, and with which shares.
    const bool swaps = mix.share < 0.5;
    const bool is_mixed = mix.kind != Mix::kNone;
    EXPECT_EQ(got.label, swaps ? partner.sample : own.sample);
    EXPECT_EQ(got.partner, swaps || !is_mixed ? own.sample : partner.sample);
    EXPECT_EQ(got.share, static_cast<float>(swaps ? 1 - mix.share : mix.share));
    EXPECT_EQ(got.partner_share, static_cast<float>(swaps ? mix.share : 1 - mix.share));
    EXPECT_NEAR(got.share + got.partner_share, 1, 2e-7);
    EXPECT_EQ(got.weight, static_cast<float>(got.label) / 8);
    EXPECT_EQ(got.partner_weight, static_cast<float>(got.partner) / 8);
    // The mean of the pixels of a picture is its number, so that of a mixed row is a mean of two numbers.
    double mean = 0;
    for (const float pixel : got.pixels) {
      mean += static_cast<double>(pixel) / 6000;
    }
    const double numbers =
        mix.share * static_cast<double>(own.sample) + (1 - mix.share) * static_cast<double>(partner.sample);
    EXPECT_NEAR(mean, numbers, 0.01) << position;
  }
  EXPECT_EQ(kinds, (std::set<Mix::Kind>{Mix::kNone, Mix::kMixup, Mix::kCutmix}));
}

TEST(MixedRows, WithOneLabelThePicturesStayAndTheLabelIsThatOfASample) {
  const auto both = load({.p = 1}, 0, 20);
  const auto one = load({.one_label = true, .p = 1}, 0, 20);
  int64_t minor = 0;
  for (size_t i = 0; i < both.size(); ++i) {
    ASSERT_EQ(one[i].pixels, both[i].pixels);
    ASSERT_TRUE(one[i].label == both[i].label || one[i].label == both[i].partner);
    minor += one[i].label == both[i].partner ? 1 : 0;
    EXPECT_EQ(one[i].weight, static_cast<float>(one[i].label) / 8);
  }
  EXPECT_GT(minor, std::ssize(both) / 20) << kSeed;
  EXPECT_LT(minor, std::ssize(both) / 3) << kSeed;
}

TEST(MixedRows, BatchesDependOnNeitherThreadsNorTheFirstStep) {
  for (const bool torn : {false, true}) {
    for (const bool one_label : {false, true}) {
      const auto whole = load({.torn = torn, .one_label = one_label}, 0, 30);
      EXPECT_EQ(load({.torn = torn, .one_label = one_label, .workers = 4}, 0, 30), whole);
      // A run that resumes after step 13, in the middle of an epoch.
      const auto rest = load({.torn = torn, .one_label = one_label, .workers = 2}, 13, 17);
      EXPECT_TRUE(std::ranges::equal(rest, std::span(whole).subspan(13 * kRows)));
    }
  }
}

// A torn picture or label has the same replacement in its own row and in the row that is mixed with it.
TEST(MixedRows, AReplacementIsAlsoThePartnerOfTheNextRow) {
  const auto seen = load({.torn = true, .p = 1}, 0, 40);
  const NumberedReader reader(true);
  for (size_t i = 0; i < seen.size(); ++i) {
    for (const int32_t sample : {seen[i].label, seen[i].partner}) {
      ASSERT_FALSE(reader.is_torn(sample, 0) || reader.is_torn(sample, 1)) << i;
    }
    // The two samples of a row are that of its own place and that of the place before it; so is one of them in the row
    // before.
    if (i % kRows != 0) {
      const std::set<int32_t> own{seen[i].label, seen[i].partner};
      EXPECT_TRUE(own.contains(seen[i - 1].label) || own.contains(seen[i - 1].partner)) << i;
    }
  }
}

TEST(MixedRows, RanksHaveTheRowsOfOneProcess) {
  for (const bool one_label : {false, true}) {
    const Setting setting{.torn = true, .one_label = one_label, .workers = 2};
    const auto whole = load(setting, 0, 12);
    for (int ranks = 2; ranks <= 3; ++ranks) {
      std::vector<std::vector<Row>> seen(static_cast<size_t>(ranks));
      on_worlds(ranks, [&](World& world) {
        // Each rank reads its share of the pictures. The first one reads no labels, and the last one all of them.
        const int64_t share = kRows / ranks;
        const RowRange pictures{world.rank() * share, (world.rank() + 1) * share};
        const RowRange labels = world.rank() + 1 == ranks ? RowRange{0, kRows} : RowRange{};
        seen[static_cast<size_t>(world.rank())] =
            load(setting, 0, 12, {pictures, labels, labels, pictures, labels, labels, pictures}, &world);
      });
      for (const auto& rows : seen) {
        ASSERT_EQ(rows.size(), whole.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          const Row& got = rows[i];
          const Row& want = whole[i];
          EXPECT_TRUE(got.pixels == Row().pixels || got.pixels == want.pixels) << i;
          EXPECT_TRUE(got.label == -1 || got.label == want.label) << i;
          EXPECT_TRUE(got.partner == -1 || got.partner == want.partner) << i;
          EXPECT_TRUE(got.share == -1 || got.share == want.share) << i;
          EXPECT_TRUE(got.partner_share == -1 || got.partner_share == want.partner_share) << i;
          EXPECT_TRUE(got.weight == -1 || got.weight == want.weight) << i;
          EXPECT_TRUE(got.partner_weight == -1 || got.partner_weight == want.partner_weight) << i;
        }
      }
    }
  }
}

TEST(MixedRows, AnEvaluationMixesNothing) {
  const Graph inputs = graph();
  auto source = make_row_source(rows_of(inputs, {.p = 1}), {}).value();
  Batch slot(inputs, kRows);
  ASSERT_TRUE(source->read(24, kRows, slot.view).ok());
  for (int64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(slot.integers(kLabel)[row], 24 + row);
    EXPECT_EQ(slot.floats(kImage)[6 * row], static_cast<float>(1000 * (24 + row)));
  }
}

TEST(MixedRows, ThePartnerOfTheFirstRowIsTheLastRow) {
  EXPECT_EQ(partner_row(0, 5), 4);
  EXPECT_EQ(partner_row(4, 5), 3);
  EXPECT_FALSE(MixPlaces::of(graph(), {.name = "d"}).mixes);
}

}  // namespace
}  // namespace xrun::runtime
