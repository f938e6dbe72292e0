// `mixup` and `cutmix` of two rows, compared with the formulas of torchvision 0.28 (torchvision.transforms.v2.MixUp and
// CutMix), which are written out here for planar pictures.
#include "runtime/data/augment/mixing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "ops/simd/simd.h"
#include "tests/runtime/data/data_support.h"

namespace xrun::runtime {
namespace {

using testing::picture_type;

constexpr uint64_t kSeed = 17;
constexpr int64_t kChannels = 3;
constexpr int64_t kHeight = 9;
constexpr int64_t kWidth = 14;
constexpr int64_t kElements = kChannels * kHeight * kWidth;

CallSpec stage(const std::string& name, double alpha, double p = 1, bool one_label = false) {
  return {name, {{"alpha", alpha}, {"p", p}, {"one_label", one_label}}, {}};
}

Mixing mixing_of(std::vector<CallSpec> stages, DType dtype = DType::kF32) {
  stages.insert(stages.begin(), {"random_flip", {}, {}});
  const DataBinding binding{.target = "image", .field = "pixels", .stages = std::move(stages)};
  return Mixing::of(binding, picture_type(kChannels, kHeight, kWidth, dtype)).value();
}

DrawKey key(uint64_t sample) { return {kSeed, 2, sample, true}; }

// A planar picture [C, H, W] of random pixels.
std::vector<float> picture(uint64_t which) {
  std::vector<float> pixels(kElements);
  RandomStream(kSeed, 100, which).fill_normal(0, pixels);
  return pixels;
}

// The row of a batch: [H, W, C].
std::vector<float> row_of(const std::vector<float>& planar) {
  std::vector<float> row(kElements);
  for (int64_t c = 0; c < kChannels; ++c) {
    for (int64_t i = 0; i < kHeight * kWidth; ++i) {
      row[static_cast<size_t>(i * kChannels + c)] = planar[static_cast<size_t>(c * kHeight * kWidth + i)];
    }
  }
  return row;
}

std::vector<float> mixed(const Mixing& mixing, const Mix& mix, const std::vector<float>& own,
                         const std::vector<float>& partner) {
  std::vector<float> row = row_of(own);
  const std::vector<float> other = row_of(partner);
  mixing.apply(mix, reinterpret_cast<const std::byte*>(other.data()), reinterpret_cast<std::byte*>(row.data()));
  return row;
}

// torchvision: inpt.roll(1, 0).mul_(1.0 - lam).add_(inpt.mul(lam)). A factor of a tensor of f32 is rounded to f32.
std::vector<float> torch_mixup(const std::vector<float>& own, const std::vector<float>& partner, double lam) {
  std::vector<float> result(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    volatile float rolled = partner[i];
    rolled = rolled * static_cast<float>(1.0 - lam);
    volatile float kept = own[i] * static_cast<float>(lam);
    result[i] = rolled + kept;
  }
  return result;
}

struct TorchBox {
  int64_t x1, y1, x2, y2;
  double lam;
};

// CutMix.make_params for the pixel (r_x, r_y).
TorchBox torch_box(double lam, int64_t r_y, int64_t r_x) {
  const double r = 0.5 * std::sqrt(1.0 - lam);
  const auto r_w_half = static_cast<int64_t>(r * static_cast<double>(kWidth));
  const auto r_h_half = static_cast<int64_t>(r * static_cast<double>(kHeight));
  TorchBox box{};
  box.x1 = std::clamp(r_x - r_w_half, int64_t{0}, kWidth);
  box.y1 = std::clamp(r_y - r_h_half, int64_t{0}, kHeight);
  box.x2 = std::clamp(r_x + r_w_half, int64_t{0}, kWidth);
  box.y2 = std::clamp(r_y + r_h_half, int64_t{0}, kHeight);
  box.lam = 1.0 - static_cast<double>((box.x2 - box.x1) * (box.y2 - box.y1)) / static_cast<double>(kWidth * kHeight);
  return box;
}

TEST(Mixing, MixupIsTheSumOfTorchvision) {
  const Mixing mixing = mixing_of({stage("mixup", 0.4)});
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const Mix mix = mixing.draw(key(sample));
    ASSERT_EQ(mix.kind, Mix::kMixup);
    const auto own = picture(sample);
    const auto partner = picture(sample + 1000);
    ASSERT_EQ(mixed(mixing, mix, own, partner), row_of(torch_mixup(own, partner, mix.share))) << sample;
  }
}

TEST(Mixing, BoxesAreThoseOfTorchvision) {
  for (const double lam : {0.0, 0.01, 0.3, 0.5, 0.77, 0.99, 1.0}) {
    for (int64_t y = 0; y < kHeight; ++y) {
      for (int64_t x = 0; x < kWidth; ++x) {
        const Rectangle box = cutmix_box(lam, kHeight, kWidth, y, x);
        const TorchBox want = torch_box(lam, y, x);
        ASSERT_EQ(box, (Rectangle{want.y1, want.x1, want.y2 - want.y1, want.x2 - want.x1}))
            << lam << " at " << y << ", " << x;
      }
    }
  }
  EXPECT_EQ(cutmix_box(0.75, 32, 32, 16, 16), (Rectangle{8, 8, 16, 16})) << "half of each side";
  EXPECT_EQ(cutmix_box(0.75, 32, 32, 2, 30), (Rectangle{0, 22, 10, 10})) << "cut off at two borders";
  EXPECT_EQ(cutmix_box(1, 32, 32, 2, 30).height, 0);
}

// output[..., y1:y2, x1:x2] = rolled[..., y1:y2, x1:x2], and the share is that of the other pixels.
TEST(Mixing, CutmixTakesARectangleOfThePartner) {
  const Mixing mixing = mixing_of({stage("cutmix", 1)});
  double mean = 0;
  for (uint64_t sample = 0; sample < 300; ++sample) {
    const Mix mix = mixing.draw(key(sample));
    ASSERT_EQ(mix.kind, Mix::kCutmix);
    const auto own = picture(sample);
    const auto partner = picture(sample + 1000);
    std::vector<float> want = own;
    int64_t taken = 0;
    for (int64_t y = mix.box.top; y < mix.box.top + mix.box.height; ++y) {
      for (int64_t x = mix.box.left; x < mix.box.left + mix.box.width; ++x, ++taken) {
        for (int64_t c = 0; c < kChannels; ++c) {
          const auto at = static_cast<size_t>((c * kHeight + y) * kWidth + x);
          want[at] = partner[at];
        }
      }
    }
    ASSERT_EQ(mixed(mixing, mix, own, partner), row_of(want)) << sample;
    ASSERT_EQ(mix.share, 1 - static_cast<double>(taken) / static_cast<double>(kHeight * kWidth));
    mean += mix.share / 300;
  }
  // Rectangles of the area 1 - lam, with lam uniform in [0, 1], would leave one half; borders and the rounding of sides
  // make them smaller.
  EXPECT_GT(mean, 0.6) << kSeed;
  EXPECT_LT(mean, 0.85) << kSeed;
}

// Mixes rows of a narrow format, whose numbers are rounded by `narrow`, and compares them with sums in f32.
template <class T>
void expect_rounded_once(DType dtype, T (*narrow)(float)) {
  const Mix mix{.kind = Mix::kMixup, .share = 0.3};
  std::vector<T> row, partner, want;
  for (size_t i = 0; i < kElements; ++i) {
    row.push_back(narrow(picture(1)[i]));
    partner.push_back(narrow(picture(2)[i]));
    volatile float rolled = ops::to_float(partner[i]) * static_cast<float>(0.7);
    volatile float kept = ops::to_float(row[i]) * 0.3F;
    want.push_back(narrow(rolled + kept));
  }
  mixing_of({stage("mixup", 1)}, dtype)
      .apply(mix, reinterpret_cast<const std::byte*>(partner.data()), reinterpret_cast<std::byte*>(row.data()));
  EXPECT_EQ(std::memcmp(row.data(), want.data(), kElements * sizeof(T)), 0) << static_cast<int>(dtype);
}

TEST(Mixing, RowsInOtherFormatsAreRoundedOnce) {
  expect_rounded_once<ops::Bf16>(DType::kBF16, [](float x) { return ops::to_bf16(x); });
  expect_rounded_once<ops::Half>(DType::kF16, [](float x) { return ops::to_f16(x); });
  std::vector<double> row, partner, want;
  for (size_t i = 0; i < kElements; ++i) {
    row.push_back(static_cast<double>(picture(1)[i]));
    partner.push_back(static_cast<double>(picture(2)[i]));
    want.push_back(partner[i] * (1 - 0.3) + row[i] * 0.3);
  }
  mixing_of({stage("mixup", 1)}, DType::kF64)
      .apply({.kind = Mix::kMixup, .share = 0.3}, reinterpret_cast<const std::byte*>(partner.data()),
             reinterpret_cast<std::byte*>(row.data()));
  EXPECT_EQ(row, want);
}

TEST(Mixing, ARowIsMixedWithItsProbabilityAndOnlyInTraining) {
  constexpr int kSamples = 4000;
  RecordProperty("seed", static_cast<int>(kSeed));
  const Mixing mixing = mixing_of({stage("mixup", 0.4, 0.25)});
  int count = 0;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const Mix mix = mixing.draw(key(sample));
    count += mix.kind != Mix::kNone;
    if (mix.kind == Mix::kNone) {
      EXPECT_EQ(mix.share, 1);
      EXPECT_FALSE(mix.swaps);
    }
  }
  EXPECT_NEAR(count, kSamples / 4, 110) << kSeed;  // the deviation is 27
  const auto own = picture(1);
  EXPECT_EQ(mixed(mixing, {}, own, picture(2)), row_of(own)) << "a row that is not mixed stays";
  EXPECT_EQ(mixing.draw({kSeed, 2, 7, false}).kind, Mix::kNone);
  EXPECT_FALSE(Mixing::of({.target = "image", .field = "f", .stages = {{"random_flip", {}, {}}}},
                          picture_type(kChannels, kHeight, kWidth)));
}

TEST(Mixing, EachRowDrawsOneOfTwoStages) {
  constexpr int kSamples = 4000;
  RecordProperty("seed", static_cast<int>(kSeed));
  const Mixing mixing = mixing_of({stage("mixup", 0.4), stage("cutmix", 1, 0.5)});
  int counts[3] = {};
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    ++counts[mixing.draw(key(sample)).kind];
  }
  EXPECT_NEAR(counts[Mix::kMixup], kSamples / 2, 130) << kSeed;   // the deviation is 32
  EXPECT_NEAR(counts[Mix::kCutmix], kSamples / 4, 110) << kSeed;  // the deviation is 27
  EXPECT_NEAR(counts[Mix::kNone], kSamples / 4, 110) << kSeed;
}

// The label of a row is the class with the larger share. With one label, it is drawn with the shares as probabilities.
TEST(Mixing, TheLabelIsThatOfTheLargerShareOrDrawn) {
  constexpr int kSamples = 20'000;
  RecordProperty("seed", static_cast<int>(kSeed));
  const Mixing both = mixing_of({stage("mixup", 0.8)});
  const Mixing one = mixing_of({stage("mixup", 0.8, 1, true)});
  EXPECT_FALSE(both.one_label());
  EXPECT_TRUE(one.one_label());
  double difference[4] = {};
  double variance[4] = {};
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const Mix mix = both.draw(key(sample));
    EXPECT_EQ(mix.swaps, mix.share < 0.5);
    const Mix drawn = one.draw(key(sample));
    EXPECT_EQ(drawn.share, mix.share) << "the picture is the same";
    const auto part = static_cast<size_t>(std::min(3.0, 4 * mix.share));
    difference[part] += (drawn.swaps ? 1 : 0) - (1 - mix.share);
    variance[part] += mix.share * (1 - mix.share);
  }
  for (size_t part = 0; part < 4; ++part) {
    EXPECT_LT(std::abs(difference[part]), 4 * std::sqrt(variance[part])) << part << ", seed " << kSeed;
  }
}

}  // namespace
}  // namespace xrun::runtime
