#include "runtime/data/augment/rectangle.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

#include "runtime/data/augment/picture_stages.h"
#include "tests/runtime/data/augment/torchvision_results.h"

namespace xrun::runtime {
namespace {

using namespace testing;

constexpr uint64_t kSeed = 11;

TEST(Rectangle, SharesAndRatiosFollowTheDistributionAsked) {
  constexpr int kDrawn = 20'000;
  RecordProperty("seed", static_cast<int>(kSeed));
  const RectangleShape shape{.least = 0.1, .most = 0.3, .narrow = 0.5, .wide = 2};
  double share = 0, log_ratio = 0, log_square = 0, top = 0, left = 0;
  for (uint64_t i = 0; i < kDrawn; ++i) {
    const auto r = draw_rectangle(400, 300, shape, 0, RandomStream(kSeed, 0, i, 0));
    ASSERT_TRUE(r.has_value());
    ASSERT_TRUE(r->top >= 0 && r->left >= 0 && r->top + r->height <= 400 && r->left + r->width <= 300);
    const auto w = static_cast<double>(r->width), h = static_cast<double>(r->height);
    ASSERT_TRUE(w * h > 0.098 * 120'000 && w * h < 0.302 * 120'000) << w << " x " << h;
    share += w * h / 120'000 / kDrawn;
    log_ratio += std::log2(w / h) / kDrawn;
    log_square += std::log2(w / h) * std::log2(w / h) / kDrawn;
    top += static_cast<double>(r->top) / (400 - h) / kDrawn;
    left += static_cast<double>(r->left) / (300 - w) / kDrawn;
  }
  // Uniform numbers: the share in [0.1, 0.3], the logarithm of the ratio in [-1, 1], the place in [0, 1]. A deviation
  // of a mean of 20,000 is at most 0.0041.
  EXPECT_NEAR(share, 0.2, 0.002) << kSeed;
  EXPECT_NEAR(log_ratio, 0, 0.017) << kSeed;
  EXPECT_NEAR(log_square, 1.0 / 3, 0.012) << kSeed;
  EXPECT_NEAR(top, 0.5, 0.012) << kSeed;
  EXPECT_NEAR(left, 0.5, 0.012) << kSeed;
}

TEST(Rectangle, AShapeThatNeverFitsGivesNone) {
  const RectangleShape all{.least = 1, .most = 1, .narrow = 2, .wide = 2};
  EXPECT_FALSE(draw_rectangle(40, 40, all, 0, RandomStream(kSeed, 0)).has_value());
  const RectangleShape whole{.least = 1, .most = 1, .narrow = 1, .wide = 1};
  EXPECT_TRUE(draw_rectangle(40, 40, whole, 0, RandomStream(kSeed, 0)).has_value());
  EXPECT_FALSE(draw_rectangle(40, 40, whole, 1, RandomStream(kSeed, 0)).has_value());
}

// The result of a stage for sample `sample` and a picture; its arguments are in `step`.
Picture result(const AugmentStep& step, Picture picture, uint64_t sample, bool training = true) {
  AugmentScratch scratch;
  scratch.picture = std::move(picture);
  scratch.form = AugmentScratch::kPicture;
  EXPECT_TRUE(step.run(step, scratch, {kSeed, 0, sample, training}).ok());
  return scratch.picture;
}

AugmentStep stage(std::string name, Attrs args) {
  return augment_step({.name = std::move(name), .args = std::move(args), .span = {}});
}

TEST(RandomErasing, AShareOfTheSamplesLosesOneRectangle) {
  const AugmentStep erase = stage("random_erasing", {{"p", 0.25}, {"value", std::vector<int64_t>{-7}}});
  constexpr int kSamples = 4000;
  RecordProperty("seed", static_cast<int>(kSeed));
  const Picture before = result_picture(3);
  int erased = 0;
  for (uint64_t s = 0; s < kSamples; ++s) {
    const Picture after = result(erase, before, s);
    int rows = 0, columns = 0, pixels = 0;
    std::vector<int> in_column(kResultWidth);
    for (int y = 0; y < kResultHeight; ++y) {
      int in_row = 0;
      for (int x = 0; x < kResultWidth; ++x) {
        const bool gone = after.row(0, y)[x] == -7;
        for (int c = 0; c < 3; ++c) {
          ASSERT_EQ(after.row(c, y)[x], gone ? -7 : before.row(c, y)[x]);
        }
        in_row += gone;
        in_column[static_cast<size_t>(x)] += gone;
      }
      rows += in_row > 0;
      pixels += in_row;
    }
    columns = static_cast<int>(std::ranges::count_if(in_column, [](int n) { return n > 0; }));
    ASSERT_EQ(pixels, rows * columns) << "not a rectangle";
    ASSERT_TRUE(rows < kResultHeight && columns < kResultWidth);
    erased += pixels > 0;
  }
  EXPECT_NEAR(erased, kSamples / 4, 110) << kSeed;  // the deviation is 27
  EXPECT_EQ(pixels_of(result(erase, before, 0, false)), pixels_of(before));
}

TEST(RandomErasing, NoiseIsStandardNormalAndAnotherForEachPixel) {
  const AugmentStep erase = stage(
      "random_erasing",
      {{"p", 1.0}, {"area", std::vector<double>{0.5, 0.5}}, {"ratio", std::vector<double>{1, 1}}, {"noise", true}});
  std::vector<float> drawn;
  for (uint64_t s = 0; s < 40; ++s) {
    Picture blank;
    blank.reshape(3, 40, 40);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 40; ++y) {
        std::fill_n(blank.row(c, y), 40, 1000.0F);
      }
    }
    std::ranges::copy_if(pixels_of(result(erase, std::move(blank), s)), std::back_inserter(drawn),
                         [](float x) { return x < 500; });
  }
  ASSERT_EQ(drawn.size(), 40U * 3 * 28 * 28);
  const double mean = std::accumulate(drawn.begin(), drawn.end(), 0.0) / static_cast<double>(drawn.size());
  double square = 0;
  for (const float x : drawn) {
    square += static_cast<double>(x) * static_cast<double>(x) / static_cast<double>(drawn.size());
  }
  EXPECT_NEAR(mean, 0, 0.015) << kSeed;
  EXPECT_NEAR(square, 1, 0.02) << kSeed;
  std::ranges::sort(drawn);
  EXPECT_LT(drawn.end() - std::unique(drawn.begin(), drawn.end()), 300);
}

TEST(RandomErasing, ValuesAreGivenByChannel) {
  const AugmentStep erase = stage("random_erasing", {{"p", 1.0}, {"value", std::vector<double>{1.5, 2.5, 3.5}}});
  const Picture after = result(erase, result_picture(3), 1);
  for (int c = 0; c < 3; ++c) {
    const auto value = 1.5F + static_cast<float>(c);
    EXPECT_TRUE(std::ranges::any_of(pixels_of(after), [&](float x) { return x == value; })) << c;
  }
}

TEST(RandomResizedCrop, IfNoAttemptFitsTheAllowedRatioIsCutFromTheMiddle) {
  // A strip of 4 x 100 has no rectangle of its whole area and a ratio of at most 2; torchvision then takes 4 x 8 in the
  // middle. Each column has its number as value.
  Picture strip;
  strip.reshape(1, 4, 100);
  for (int y = 0; y < 4; ++y) {
    std::iota(strip.row(0, y), strip.row(0, y) + 100, 0.0F);
  }
  const AugmentStep crop =
      stage("random_resized_crop",
            {{"size", int64_t{4}}, {"area", std::vector<double>{1}}, {"ratio", std::vector<double>{0.5, 2}}});
  const Picture wide = result(crop, strip, 0);
  ASSERT_EQ(wide.width(), 4);
  // Eight columns from 46 to 53 become four; means are those of a triangle, symmetric about the middle.
  EXPECT_NEAR((wide.row(0, 0)[0] + wide.row(0, 0)[3]) / 2, 49.5, 1e-4);
  EXPECT_NEAR(wide.row(0, 0)[2] - wide.row(0, 0)[1], 2, 0.1);
  // Outside training, the middle square: columns 48 to 51.
  const Picture square = result(crop, strip, 0, false);
  EXPECT_EQ(pixels_of(square)[0], 48);
  EXPECT_EQ(pixels_of(square)[3], 51);
}

}  // namespace
}  // namespace xrun::runtime
