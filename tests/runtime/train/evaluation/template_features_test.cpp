// Features of templates: an oracle in f64, broken pictures, and the numbers of a protocol with one fold.
#include "runtime/train/evaluation/template_features.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <random>
#include <tuple>

namespace xrun::runtime {
namespace {

using ::testing::SizeIs;

constexpr int64_t kDim = 12;

using Feature = std::vector<double>;

struct Made {
  TemplatePairs pairs;
  std::vector<std::vector<float>> plain;     // [samples][dim]
  std::vector<std::vector<float>> mirrored;  // [samples][dim]
  std::vector<bool> broken;                  // [samples]
};

// Templates of one to nine pictures from one to four media; all pairs of neighbouring templates.
Made make(uint32_t seed, uint32_t templates, double broken) {
  std::mt19937 random(seed);
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  std::normal_distribution<float> normal;
  Made made;
  uint32_t medium = 0;
  for (uint32_t one = 0; one < templates; ++one) {
    for (uint32_t media = 1 + below(4); media > 0; --media, ++medium) {
      for (uint32_t pictures = 1 + below(3); pictures > 0; --pictures) {
        made.pairs.samples.push_back({one, medium});
        made.broken.push_back(below(1000) < 1000 * broken);
        for (auto* rows : {&made.plain, &made.mirrored}) {
          rows->emplace_back(kDim);
          std::ranges::generate(rows->back(), [&] { return normal(random); });
        }
      }
    }
    for (uint32_t other = 0; other < one; ++other) {
      made.pairs.pairs.push_back({.first = other, .second = one & 0xFFFF, .same = below(2) & 1});
    }
  }
  made.pairs.templates = templates;
  return made;
}

Feature normalised(Feature feature) {
  double squares = 0;
  for (const double value : feature) {
    squares += value * value;
  }
  for (double& value : feature) {
    value /= std::sqrt(squares);
  }
  return feature;
}

Feature mean(const std::vector<Feature>& all) {
  Feature sum(kDim);
  for (const Feature& one : all) {
    for (size_t d = 0; d < sum.size(); ++d) {
      sum[d] += one[d] / static_cast<double>(all.size());
    }
  }
  return sum;
}

// The definition, for one template: the normalised mean over media of the means over the pictures of a medium.
std::optional<Feature> expected(const Made& made, uint32_t of_template, bool flip) {
  std::map<uint32_t, std::vector<Feature>> by_medium;
  for (size_t sample = 0; sample < made.broken.size(); ++sample) {
    if (made.pairs.samples[sample].of_template == of_template && !made.broken[sample]) {
      Feature feature(kDim);
      for (size_t d = 0; d < feature.size(); ++d) {
        feature[d] = made.plain[sample][d] + (flip ? static_cast<double>(made.mirrored[sample][d]) : 0);
      }
      by_medium[made.pairs.samples[sample].medium].push_back(feature);
    }
  }
  std::vector<Feature> media;
  for (const auto& [medium, pictures] : by_medium) {
    media.push_back(mean(pictures));
  }
  return media.empty() ? std::nullopt : std::optional(normalised(mean(media)));
}

std::vector<ComparedPair> compared(const Made& made, bool flip) {
  TemplateFeatures features(made.pairs, kDim);
  for (size_t sample = 0; sample < made.broken.size(); ++sample) {
    if (made.broken[sample]) {
      features.add_broken();
    } else {
      features.add(made.plain[sample].data(), flip ? made.mirrored[sample].data() : nullptr);
    }
  }
  return features.compare(nullptr).value();
}

TEST(TemplateFeatures, AreMeansOverMediaOfMeansOverPictures) {
  for (const auto& [seed, broken, flip] : std::vector<std::tuple<uint32_t, double, bool>>{
           {1, 0.0, true}, {2, 0.0, false}, {3, 0.5, true}, {4, 0.9, false}}) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Made made = make(seed, 30, broken);
    const std::vector<ComparedPair> pairs = compared(made, flip);
    size_t next = 0;
    for (const TemplatePairs::Pair pair : made.pairs.pairs) {
      const auto first = expected(made, pair.first, flip);
      const auto second = expected(made, pair.second, flip);
      if (!first || !second) {
        continue;
      }
      double squared = 0;
      for (size_t d = 0; d < first->size(); ++d) {
        squared += ((*first)[d] - (*second)[d]) * ((*first)[d] - (*second)[d]);
      }
      ASSERT_LT(next, pairs.size());
      EXPECT_NEAR(pairs[next].squared, squared, 1e-12);
      EXPECT_EQ(pairs[next].same, pair.same != 0);
      ++next;
    }
    EXPECT_EQ(next, pairs.size());
    if (broken == 0) {
      EXPECT_EQ(pairs.size(), made.pairs.pairs.size());
    } else {
      EXPECT_LT(pairs.size(), made.pairs.pairs.size()) << "templates without a sound picture are left out";
    }
  }
}

TEST(TemplateFeatures, FramesOfAVideoCountAsOnePhotograph) {
  Made made;
  made.pairs = {.templates = 2,
                .samples = {{0, 0}, {0, 1}, {0, 1}, {0, 1}, {1, 2}},
                .pairs = {{.first = 0, .second = 1, .same = 1}}};
  for (const size_t axis : {0U, 1U, 1U, 1U, 0U}) {
    made.plain.emplace_back(kDim);
    made.plain.back()[axis] = 3;
  }
  made.broken.resize(5);
  // The feature of template 0 is (1, 1) / sqrt(2), that of template 1 is (1, 0).
  EXPECT_NEAR(compared(made, false)[0].squared, 2 - std::sqrt(2.0), 1e-15);
}

TEST(TemplateFeatures, PicturesWithLongFeaturesWeighMore) {
  Made made;
  made.pairs = {.templates = 2, .samples = {{0, 0}, {0, 1}, {1, 2}}, .pairs = {{.first = 0, .second = 1, .same = 1}}};
  made.plain.resize(3, std::vector<float>(kDim));
  made.plain[0][0] = 4;
  made.plain[1][1] = 3;
  made.plain[2][0] = 1;
  made.broken.resize(3);
  // The feature of template 0 is (4, 3) / 5, that of template 1 is (1, 0).
  EXPECT_NEAR(compared(made, false)[0].squared, 0.04 + 0.36, 1e-15);
}

TEST(TemplateFeatures, ComparingEndsAfterAStopRequest) {
  const Made made = make(5, 3, 0);
  TemplateFeatures features(made.pairs, kDim);
  for (const auto& row : made.plain) {
    features.add(row.data(), nullptr);
  }
  const std::atomic<bool> stop{true};
  const auto stopped = features.compare(&stop);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().kind, ErrorKind::kInterrupted);
}

// The protocol of IJB chooses the threshold on all pairs.
TEST(TemplateFeatures, OneFoldChoosesTheThresholdOnAllPairs) {
  std::vector<ComparedPair> pairs;
  for (int i = 0; i < 40; ++i) {
    pairs.push_back({i < 20 ? 0.02 * i : 1.0 + 0.05 * i, i < 20});
  }
  const VerifiedPairs one = score_pairs(pairs, 1);
  EXPECT_EQ(one.accuracy, 1.0);
  EXPECT_EQ(one.deviation, 0.0);
  EXPECT_NEAR(one.threshold, 0.39, 1e-12);
  ASSERT_THAT(one.tar_at_far, SizeIs(2));
  EXPECT_EQ(one.tar_at_far[0].tar, 1.0);
  EXPECT_EQ(one.tar_at_far[1].tar, 1.0);
  EXPECT_EQ(one.tar_at_far[1].measured, 0.0);
  // All pairs of one class are in the first of two folds, whose threshold is chosen without any of them.
  EXPECT_LT(score_pairs(pairs, 2).accuracy, 0.8);
}

}  // namespace
}  // namespace xrun::runtime
