// Conversions to and from f16, compared with the definition of the format in f64.
#include "ops/simd/convert.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

#include "graph/base/random.h"
#include "graph/types/scalar_expr.h"
#include "ops/compute_modes.h"
#include "tests/support/isas.h"

namespace xrun::ops {
namespace {

constexpr int kHalves = 1 << 16;

// The value of an f16 by the definition of the format: sign, five bits of exponent, ten bits of mantissa.
double value_of(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double size = exponent == 31  ? (mantissa == 0 ? HUGE_VAL : NAN)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> bits;
  for (int i = 0; i < kHalves; ++i) {
    bits.push_back(static_cast<uint16_t>(i));
  }
  return bits;
}

TEST(ConvertF16, EveryNumberIsWidenedByTheDefinitionAndNarrowedBack) {
  const ComputeModes modes;  // flush denormal f32 to zero, which must not change subnormal f16
  const std::vector<uint16_t> bits = all_halves();
  for (const Isa isa : all_isas()) {
    std::vector<float> wide(bits.size());
    std::vector<uint16_t> back(bits.size());
    convert(isa, DType::kF16, bits.data(), DType::kF32, wide.data(), kHalves);
    convert(isa, DType::kF32, wide.data(), DType::kF16, back.data(), kHalves);
    for (size_t i = 0; i < bits.size(); ++i) {
      const double expected = value_of(bits[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(wide[i]) && std::isnan(value_of(back[i]))) << i;
        continue;
      }
      ASSERT_EQ(static_cast<double>(wide[i]), expected) << i;
      ASSERT_EQ(back[i], bits[i]) << i;
      ASSERT_EQ(to_float(Half{bits[i]}), wide[i]) << i;
      ASSERT_EQ(to_f16(wide[i]).bits, bits[i]) << i;
    }
  }
}

// The nearest f16 lies among the two neighbours that the definition gives; a tie goes to the even one.
TEST(ConvertF16, NumbersAreRoundedToTheNearestWithTiesToEven) {
  const ComputeModes modes;
  constexpr uint64_t kSeed = 51;
  RecordProperty("seed", static_cast<int>(kSeed));
  const RandomStream stream(kSeed, 1);
  std::vector<float> numbers{65504,      65519.9F, 65520,  65536, 0x1p-24F, 0x1p-25F,
                             0x1.8p-25F, 0x1p-26F, 1e-30F, 0.0F,  -0.0F};
  for (int i = 0; i < 31 * 1024;
       ++i) {  // each number, the ties between two neighbours, and the numbers next to the ties
    const double here = value_of(static_cast<uint16_t>(i));
    const double tie = (here + value_of(static_cast<uint16_t>(i + 1))) / 2;
    if (std::isfinite(tie)) {
      const auto f = static_cast<float>(tie);
      numbers.insert(numbers.end(), {f, -f, std::nextafter(f, 0.0F), std::nextafter(f, 1e9F)});
    }
  }
  for (uint64_t i = 0; i < 100'000; ++i) {
    const auto word = static_cast<uint32_t>(stream.bits(i));
    float f = 0;
    std::memcpy(&f, &word, sizeof f);
    if (!std::isnan(f) && (f == 0 || std::fabs(f) >= 0x1p-126F)) {
      numbers.push_back(f);
    }
  }
  const auto n = static_cast<int64_t>(numbers.size());
  for (const Isa isa : all_isas()) {
    std::vector<uint16_t> narrow(numbers.size());
    std::vector<float> stored(numbers.size());
    convert(isa, DType::kF32, numbers.data(), DType::kF16, narrow.data(), n);
    round_to(isa, DType::kF16, numbers.data(), stored.data(), n);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const double x = std::fabs(static_cast<double>(numbers[i]));
      const uint16_t bits = narrow[i];
      const double got = std::fabs(value_of(bits));
      ASSERT_EQ(std::signbit(value_of(bits)), std::signbit(numbers[i])) << numbers[i];
      ASSERT_EQ(static_cast<double>(stored[i]), value_of(bits)) << numbers[i];
      ASSERT_EQ(apply(ScalarOp::kF16, static_cast<double>(numbers[i])), value_of(bits)) << numbers[i];
      if (std::isinf(got)) {
        ASSERT_GE(x, 65520) << "half way from the largest number to the next power of two";
        continue;
      }
      for (const int other : {-1, 1}) {
        const auto at = static_cast<uint16_t>(bits + other);
        const double neighbour = std::fabs(value_of(at));
        if ((bits & 0x7FFF) + other < 0 || std::isinf(neighbour)) {
          continue;
        }
        ASSERT_LE(std::fabs(x - got), std::fabs(x - neighbour)) << numbers[i];
        ASSERT_TRUE(std::fabs(x - got) < std::fabs(x - neighbour) || bits % 2 == 0) << numbers[i] << " is a tie";
      }
    }
  }
}

}  // namespace
}  // namespace xrun::ops
