// Numbers of 8 and 16 bits are compared with the processor's conversions and with a search over all codes.
#include "tests/support/ptx/instructions/narrow.h"

#include <cfenv>
#include <cmath>
#include <immintrin.h>

#include "tests/ptx/lane_operands.h"

namespace xrun::ptx {
namespace {

TEST(NarrowNumbers, EveryHalfHasItsValue) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const double value = decode(kF16Format, code);
    const auto expected = static_cast<double>(_cvtsh_ss(static_cast<uint16_t>(code)));
    EXPECT_TRUE(value == expected || (std::isnan(value) && std::isnan(expected))) << code;
    EXPECT_EQ(std::signbit(value), std::signbit(expected) && !std::isnan(expected)) << code;
    const double bfloat = decode(kBf16Format, code);
    const auto single = static_cast<double>(std::bit_cast<float>(code << 16));
    EXPECT_TRUE(bfloat == single || (std::isnan(bfloat) && std::isnan(single))) << code;
  }
}

TEST(NarrowNumbers, BytesHaveTheirValues) {
  EXPECT_EQ(decode(kE4m3Format, 0x38), 1.0);
  EXPECT_EQ(decode(kE4m3Format, 0x7e), 448.0);
  EXPECT_EQ(decode(kE4m3Format, 0x78), 256.0) << "the exponent 15 has numbers";
  EXPECT_EQ(decode(kE4m3Format, 0x81), -0x1p-9);
  EXPECT_TRUE(std::isnan(decode(kE4m3Format, 0xff)));
  EXPECT_EQ(decode(kE5m2Format, 0x3c), 1.0);
  EXPECT_EQ(decode(kE5m2Format, 0x7b), 57344.0);
  EXPECT_EQ(decode(kE5m2Format, 0x01), 0x1p-16);
  EXPECT_EQ(decode(kE5m2Format, 0xfc), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(decode(kE5m2Format, 0x7d)));
}

TEST(NarrowNumbers, HalvesAreRoundedLikeTheProcessors) {
  for (const uint64_t bits : operands_of(0, 32)) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) {
      continue;
    }
    ASSERT_EQ(encode(kF16Format, value, FE_TONEAREST), _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
        << value;
    ASSERT_EQ(encode(kF16Format, value, FE_TOWARDZERO), _cvtss_sh(value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC))
        << value;
    ASSERT_EQ(encode(kF16Format, value, FE_UPWARD), _cvtss_sh(value, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC))
        << value;
    ASSERT_EQ(encode(kF16Format, value, FE_DOWNWARD), _cvtss_sh(value, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC))
        << value;
  }
}

// Returns the nearest of all finite codes; if two have the same distance, the even one.
uint32_t nearest(const Format& format, double value) {
  const uint32_t codes = 1U << (format.exponent_bits + format.fraction_bits);
  uint32_t best = 0;
  for (uint32_t code = 0; code < codes && std::isfinite(decode(format, code)); ++code) {
    const double distance = std::fabs(decode(format, code) - std::fabs(value));
    const double least = std::fabs(decode(format, best) - std::fabs(value));
    best = distance < least || (distance == least && code % 2 == 0) ? code : best;
  }
  return best | (std::signbit(value) ? codes : 0);
}

TEST(NarrowNumbers, BytesAreTheNearestOfAllCodes) {
  std::mt19937_64 random(kSeed);
  for (const Format& format : {kE4m3Format, kE5m2Format}) {
    for (int i = 0; i < 20000; ++i) {
      const double value =
          std::ldexp(static_cast<double>(static_cast<int64_t>(random())), static_cast<int>(random() % 44) - 88);
      const uint32_t expected = nearest(format, value);
      ASSERT_EQ(encode(format, value, FE_TONEAREST, true), expected) << value << ", seed " << kSeed;
    }
    // Numbers in the middle between two codes.
    for (uint32_t code = 0; std::isfinite(decode(format, code + 1)); ++code) {
      const double middle = (decode(format, code) + decode(format, code + 1)) / 2;
      EXPECT_EQ(encode(format, middle, FE_TONEAREST, true), code + code % 2) << middle;
    }
  }
  EXPECT_EQ(encode(kE4m3Format, 1e9, FE_TONEAREST, true), 0x7eU);
  EXPECT_EQ(encode(kE4m3Format, -HUGE_VAL, FE_TONEAREST, true), 0xfeU);
  EXPECT_EQ(encode(kE5m2Format, 1e9, FE_TONEAREST, true), 0x7bU);
  EXPECT_EQ(encode(kE5m2Format, 1e9, FE_TONEAREST, false), 0x7cU);
  EXPECT_EQ(encode(kE4m3Format, NAN, FE_TONEAREST, true), 0x7fU);
}

// The exact sums have at most 128 bits, so the test knows on which side of the result they lie.
TEST(NarrowNumbers, SumsToOddKeepTheSideOfTheExactSum) {
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 100000; ++i) {
    const auto whole = [&] { return static_cast<int64_t>(random()) >> (random() % 50); };
    const int64_t a = whole() >> 11;
    const int64_t b = whole() >> 11;
    const int shift = static_cast<int>(random() % 60);
    const double sum = sum_to_odd(std::ldexp(static_cast<double>(a), shift), static_cast<double>(b));
    const Int128 exact = (static_cast<Int128>(a) << shift) + b;
    if (static_cast<Int128>(sum) != exact) {
      ASSERT_EQ(std::bit_cast<uint64_t>(sum) & 1, 1U) << "seed " << kSeed;
      const Int128 above = static_cast<Int128>(std::nextafter(sum, HUGE_VAL));
      const Int128 below = static_cast<Int128>(std::nextafter(sum, -HUGE_VAL));
      ASSERT_TRUE(below < exact && exact < above) << "seed " << kSeed;
    }
    const double number = integer_to_odd(exact);
    ASSERT_EQ(number, sum) << "seed " << kSeed;
  }
}

}  // namespace
}  // namespace xrun::ptx
