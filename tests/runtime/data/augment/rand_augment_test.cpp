#include "runtime/data/augment/rand_augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <map>
#include <set>

#include "runtime/data/pictures/byte_picture.h"
#include "tests/runtime/data/augment/torchvision_results.h"

namespace xrun::runtime {
namespace {

using namespace testing;

constexpr std::array<const char*, kAugmentOps> kNames = {
    "identity", "shear x",  "shear y",   "translate x", "translate y", "rotate",       "brightness",
    "color",    "contrast", "sharpness", "posterize",   "solarize",    "autocontrast", "equalize"};

std::string bytes_of(const Picture& picture) {
  std::string bytes;
  for (const float pixel : pixels_of(picture)) {
    EXPECT_EQ(pixel, std::floor(pixel));
    bytes.push_back(static_cast<char>(static_cast<uint8_t>(pixel)));
  }
  return bytes;
}

TEST(RandAugment, EachOperationHasTheResultOfTorchvisionAtEachStrength) {
  std::set<int> ops;
  int compared = 0;
  for (const std::string& line : results_of("op")) {
    int op = 0, magnitude = 0, sign = 0, channels = 0, fill = 0;
    unsigned long long digest = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%d %d %d %d %d %llx", &op, &magnitude, &sign, &channels, &fill, &digest), 6);
    Picture picture = result_picture(channels);
    Picture other;
    apply(static_cast<AugmentOp>(op), magnitude, sign < 0, static_cast<float>(fill), picture, other);
    EXPECT_EQ(stable_hash(bytes_of(picture)), digest) << kNames[static_cast<size_t>(op)] << ", " << line;
    ops.insert(op);
    ++compared;
  }
  EXPECT_EQ(ops.size(), static_cast<size_t>(kAugmentOps));
  EXPECT_GT(compared, 600);
}

TEST(RandAugment, PicturesOfOneValueAndOfOnePixelStayValid) {
  for (int op = 0; op < kAugmentOps; ++op) {
    for (const auto& [channels, height, width] : {std::array{1, 1, 1}, {3, 1, 9}, {3, 2, 2}, {1, 9, 1}, {3, 5, 8}}) {
      for (const float value : {0.0F, 7.0F, 255.0F}) {
        Picture picture;
        Picture other;
        picture.reshape(channels, height, width);
        for (int c = 0; c < channels; ++c) {
          for (int y = 0; y < height; ++y) {
            std::fill_n(picture.row(c, y), width, value);
          }
        }
        apply(static_cast<AugmentOp>(op), kMostMagnitude, true, 0, picture, other);
        ASSERT_EQ(pixels_of(picture).size(), static_cast<size_t>(channels * height * width));
        for (const float pixel : pixels_of(picture)) {
          ASSERT_TRUE(pixel >= 0 && pixel <= 255 && pixel == std::floor(pixel)) << kNames[static_cast<size_t>(op)];
        }
      }
    }
  }
}

TEST(RandAugment, PixelsAreRoundedHalfToEvenAndLimited) {
  Picture picture;
  picture.reshape(1, 1, 6);
  const std::array<float, 6> from = {-3, 0.5F, 1.5F, 254.4F, 254.6F, 300};
  const std::vector<float> to = {0, 0, 2, 254, 255, 255};
  std::ranges::copy(from, picture.row(0, 0));
  round_to_bytes(picture);
  EXPECT_EQ(pixels_of(picture), to);
}

// The results of the stage for samples 0..count-1.
std::vector<std::vector<float>> augmented(const AugmentStep& step, const DrawKey& first, int count) {
  std::vector<std::vector<float>> results;
  AugmentScratch scratch;
  for (int i = 0; i < count; ++i) {
    scratch.picture = result_picture(3);
    scratch.form = AugmentScratch::kPicture;
    DrawKey key = first;
    key.sample += static_cast<uint64_t>(i);
    EXPECT_TRUE(run_rand_augment(step, scratch, key).ok());
    results.push_back(pixels_of(scratch.picture));
  }
  return results;
}

TEST(RandAugment, OneOperationIsEachOfTheFourteenEquallyOften) {
  constexpr uint64_t kSeed = 5;
  constexpr int kSamples = 14'000;
  RecordProperty("seed", static_cast<int>(kSeed));
  // The two results of each operation. Signs of operations without one, and the identity, give the picture itself.
  std::map<std::vector<float>, std::vector<std::pair<int, bool>>> known;
  for (int op = 0; op < kAugmentOps; ++op) {
    for (const bool negative : {false, true}) {
      Picture picture = result_picture(3);
      Picture other;
      apply(static_cast<AugmentOp>(op), 9, negative, 0, picture, other);
      known[pixels_of(picture)].emplace_back(op, negative);
    }
  }
  const AugmentStep step{.run = run_rand_augment, .stage = 2, .a = {0}, .size = 1, .extra = 9};
  std::map<std::pair<int, bool>, double> shares;
  for (const auto& result : augmented(step, {.seed = kSeed}, kSamples)) {
    ASSERT_TRUE(known.contains(result));
    for (const auto& one : known[result]) {
      shares[one] += 1.0 / static_cast<double>(known[result].size());
    }
  }
  EXPECT_EQ(shares.size(), 2U * kAugmentOps);
  for (const auto& [one, count] : shares) {
    // The mean is 500, the deviation below 22.
    EXPECT_NEAR(count, kSamples / 28.0, 110)
        << kNames[static_cast<size_t>(one.first)] << one.second << " seed " << kSeed;
  }
}

TEST(RandAugment, DrawsDependOnSeedEpochSampleAndStageOnly) {
  const AugmentStep step{.run = run_rand_augment, .stage = 1, .a = {0}, .size = 2, .extra = 9};
  const auto first = augmented(step, {1, 2, 3, true}, 30);
  EXPECT_EQ(augmented(step, {1, 2, 3, true}, 30), first);
  EXPECT_NE(augmented(step, {2, 2, 3, true}, 30), first);
  EXPECT_NE(augmented(step, {1, 3, 3, true}, 30), first);
  AugmentStep other = step;
  other.stage = 2;
  EXPECT_NE(augmented(other, {1, 2, 3, true}, 30), first);
  // Results of samples do not depend on the samples before them.
  EXPECT_EQ(augmented(step, {1, 2, 13, true}, 1)[0], first[10]);
  // Outside training, the stage does nothing.
  EXPECT_EQ(augmented(step, {1, 2, 3, false}, 1)[0], pixels_of(result_picture(3)));
}

}  // namespace
}  // namespace xrun::runtime
