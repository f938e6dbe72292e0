// Rows of class weights in bf16 and fp8 (ops/head/row_format.h).
#include "ops/head/row_format.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <set>
#include <vector>

#include "ops/simd/simd.h"

namespace xrun::ops {
namespace {

std::vector<float> stored(RowFormat format, const std::vector<float>& values, const RandomStream& random,
                          float* scale = nullptr) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<std::byte> row(values.size() * static_cast<size_t>(element_bytes(format)));
  const float of_row = store_row(format, values.data(), n, random, row.data());
  if (scale != nullptr) {
    *scale = of_row;
  }
  std::vector<float> out(values.size());
  load_row(format, row.data(), of_row, n, out.data());
  return out;
}

// Returns the value of a code of e4m3, by the definition of the format.
double fp8_value(int code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 128) != 0 ? -size : size;
}

TEST(RowFormat, EveryCodeOfFp8HasItsValueAndIsStoredAsItself) {
  std::vector<std::byte> codes;
  std::vector<float> values;
  for (int code = 0; code < 256; ++code) {
    if ((code & 127) != 127) {
      codes.push_back(static_cast<std::byte>(code));
      values.push_back(static_cast<float>(fp8_value(code)));
    }
  }
  const auto n = static_cast<int64_t>(codes.size());
  std::vector<float> loaded(codes.size());
  load_row(RowFormat::kFp8, codes.data(), 1, n, loaded.data());
  EXPECT_EQ(loaded, values);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<std::byte> again(codes.size());
    EXPECT_EQ(store_row(RowFormat::kFp8, values.data(), n, RandomStream(seed, 0), again.data()), 1.0F);
    EXPECT_EQ(again, codes);
  }
}

TEST(RowFormat, NumbersOfBf16AreStoredAsThemselves) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 65536; bits += 7) {
    const float value = to_float(Bf16{static_cast<uint16_t>(bits)});
    if (std::isfinite(value)) {
      values.push_back(value);
    }
  }
  EXPECT_EQ(stored(RowFormat::kBf16, values, RandomStream(1, 2)), values);
}

TEST(RowFormat, StochasticRoundingIsUnbiased) {
  constexpr int kDraws = 20'000;
  const std::vector<float> values{1.0F,     1.003F,  -1.003F, 0.7F,   -0.3337F, 100.7F,  3.1e-3F, -2e-4F, 447.0F,
                                  0.01562F, 0.0157F, 0.001F,  400.0F, 17.3F,    -250.0F, 0.25F,   1e-5F,  33.0F};
  for (const RowFormat format : {RowFormat::kBf16, RowFormat::kFp8}) {
    std::vector<double> sums(values.size());
    std::vector<std::set<float>> seen(values.size());
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      const std::vector<float> rounded = stored(format, values, RandomStream(9, draw));
      for (size_t i = 0; i < values.size(); ++i) {
        sums[i] += static_cast<double>(rounded[i]);
        seen[i].insert(rounded[i]);
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_LE(seen[i].size(), 2U) << values[i];
      const double gap = static_cast<double>(*seen[i].rbegin()) - static_cast<double>(*seen[i].begin());
      EXPECT_LE(*seen[i].begin(), values[i]);
      EXPECT_GE(*seen[i].rbegin(), values[i]);
      // The bound is five standard deviations of the mean of the draws, plus the resolution of sixteen random bits.
      EXPECT_NEAR(sums[i] / kDraws, values[i], gap * (5 * 0.5 / std::sqrt(kDraws) + 0x1p-15)) << values[i];
    }
  }
}

// The random bits of a value depend only on its position, so a part of a row is rounded like the whole row.
TEST(RowFormat, RoundingOfAValueDoesNotDependOnTheRestOfTheRow) {
  std::vector<float> values(301);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<float>(i) * 1.7F);
  }
  values[0] = 1.5F;  // the largest value, so the scale is the same for every length
  const RandomStream random(3, 4);
  for (const RowFormat format : {RowFormat::kBf16, RowFormat::kFp8}) {
    const std::vector<float> whole = stored(format, values, random);
    for (const size_t n : {1, 15, 16, 17, 255, 256, 257, 300}) {
      const std::vector<float> part =
          stored(format, {values.begin(), values.begin() + static_cast<int64_t>(n)}, random);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin())) << n;
    }
  }
}

TEST(RowFormat, ScalesOfFp8ArePowersOfTwoThatFit) {
  for (const float largest : {1e-30F, 1e-4F, 0.5F, 1.0F, 447.9F, 448.0F, 448.1F, 1e20F, 3e38F}) {
    float scale = 0;
    const std::vector<float> rounded = stored(RowFormat::kFp8, {largest, -largest / 3, 0}, RandomStream(1, 1), &scale);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5F) << largest;
    EXPECT_LE(largest, 448 * scale);
    EXPECT_TRUE(largest > 224 * scale || scale == 0x1p-100F) << largest << " " << scale;
    EXPECT_NEAR(rounded[0] / largest, 1, 1.0 / 8);
    EXPECT_EQ(rounded[2], 0);
  }
  float scale = 0;
  EXPECT_EQ(stored(RowFormat::kFp8, std::vector<float>(40), RandomStream(1, 1), &scale), std::vector<float>(40));
  EXPECT_GT(scale, 0);
}

TEST(RowFormat, NanAndInfinityStayVisible) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const std::vector<float> narrow = stored(RowFormat::kBf16, {nan, infinity, -infinity, 1}, RandomStream(seed, 0));
    EXPECT_TRUE(std::isnan(narrow[0]));
    EXPECT_EQ(narrow[1], infinity);
    EXPECT_EQ(narrow[2], -infinity);
    for (const float bad : {nan, infinity, -infinity}) {
      for (const float value : stored(RowFormat::kFp8, {1, bad, 2}, RandomStream(seed, 0))) {
        EXPECT_TRUE(std::isnan(value)) << "a row of fp8 has one scale";
      }
    }
  }
}

// The nearest number is found by comparing with all numbers of the format.
TEST(RowFormat, RoundingToTheNearestFindsTheNearest) {
  std::vector<float> numbers;
  for (int code = 0; code < 256; ++code) {
    if ((code & 127) != 127) {
      numbers.push_back(static_cast<float>(fp8_value(code)));
    }
  }
  const RandomStream random(17, 1);
  std::vector<float> values{448.0F};  // so that the scale is 1
  for (uint64_t i = 0; i < 3000; ++i) {
    const float size = std::ldexp(random.normal(i), static_cast<int>(i % 20) - 11);
    values.push_back(std::min(448.0F, std::max(-448.0F, size)));
  }
  std::vector<std::byte> row(values.size());
  const auto n = static_cast<int64_t>(values.size());
  ASSERT_EQ(store_nearest(RowFormat::kFp8, values.data(), n, row.data()), 1.0F);
  std::vector<float> rounded(values.size());
  load_row(RowFormat::kFp8, row.data(), 1, n, rounded.data());
  for (size_t i = 0; i < values.size(); ++i) {
    float nearest = HUGE_VALF;
    for (const float number : numbers) {
      nearest = std::min(nearest, std::abs(number - values[i]));
    }
    EXPECT_EQ(std::abs(rounded[i] - values[i]), nearest) << values[i];
  }
  row.resize(2 * values.size());
  store_nearest(RowFormat::kBf16, values.data(), n, row.data());
  load_row(RowFormat::kBf16, row.data(), 1, n, rounded.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const float step = std::abs(values[i]) * 0x1p-8F;
    EXPECT_LE(std::abs(rounded[i] - values[i]), step) << values[i];
    EXPECT_EQ(to_float(to_bf16(values[i])), rounded[i]) << values[i];
  }
}

}  // namespace
}  // namespace xrun::ops
