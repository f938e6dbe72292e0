// Every value of the small types, and numbers that have no f32.
#include "runtime/interchange/weights/element_type.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace xrun::runtime {
namespace {

template <class Number>
int64_t first_bad(ElementType type, std::vector<Number> numbers, std::vector<float>* out = nullptr) {
  std::vector<float> values(numbers.size());
  const int64_t bad =
      widen(type, false, reinterpret_cast<const std::byte*>(numbers.data()), std::ssize(numbers), values.data());
  if (out != nullptr) {
    *out = values;
  }
  return bad;
}

float one(ElementType type, uint8_t bits) {
  std::vector<float> values;
  EXPECT_EQ(first_bad<uint8_t>(type, {bits}, &values), 1);
  return values[0];
}

// The definition of a type by its fields, computed in double.
double defined(uint8_t bits, int fraction_bits, int bias) {
  const int exponent = (bits & 0x7f) >> fraction_bits;
  const double fraction = (bits & ((1 << fraction_bits) - 1)) / std::exp2(fraction_bits);
  const double size = exponent == 0 ? fraction * std::exp2(1 - bias) : (1 + fraction) * std::exp2(exponent - bias);
  return bits >= 0x80 ? -size : size;
}

TEST(ElementType, EveryValueOfTheEightBitFloatsIsThatOfItsDefinition) {
  for (int i = 0; i < 256; ++i) {
    const auto bits = static_cast<uint8_t>(i);
    const float fnuz4 = one(ElementType::kF8E4M3Fnuz, bits);
    const float fnuz5 = one(ElementType::kF8E5M2Fnuz, bits);
    if (bits == 0x80) {
      EXPECT_TRUE(std::isnan(fnuz4) && std::isnan(fnuz5));
    } else {
      EXPECT_EQ(fnuz4, defined(bits, 3, 8)) << i;
      EXPECT_EQ(fnuz5, defined(bits, 2, 16)) << i;
    }
    const float e4m3 = one(ElementType::kF8E4M3, bits);
    EXPECT_TRUE((bits & 0x7f) == 0x7f ? std::isnan(e4m3) : e4m3 == static_cast<float>(defined(bits, 3, 7))) << i;
    const float e5m2 = one(ElementType::kF8E5M2, bits);
    if ((bits & 0x7f) < 0x7c) {
      EXPECT_EQ(e5m2, defined(bits, 2, 15)) << i;
    } else {
      EXPECT_TRUE((bits & 3) == 0 ? std::isinf(e5m2) : std::isnan(e5m2)) << i;
    }
    const float e8m0 = one(ElementType::kF8E8M0, bits);
    EXPECT_TRUE(bits == 0xff ? std::isnan(e8m0) : e8m0 == static_cast<float>(std::exp2(i - 127))) << i;
  }
  EXPECT_EQ(one(ElementType::kBool, 2), 1);
  EXPECT_EQ(one(ElementType::kI8, 0xfe), -2);
  EXPECT_EQ(one(ElementType::kU8, 0xfe), 254);
}

TEST(ElementType, AnIntegerThatWouldBeRoundedIsReported) {
  EXPECT_EQ(first_bad<int64_t>(ElementType::kI64, {0, 1 << 24, (1 << 24) + 2, (1 << 24) + 1, 3}), 3);
  EXPECT_EQ(first_bad<int64_t>(ElementType::kI64, {INT64_MIN, -(int64_t{1} << 40), INT64_MAX}), 2);
  EXPECT_EQ(first_bad<uint64_t>(ElementType::kU64, {uint64_t{1} << 63, UINT64_MAX}), 1);
  EXPECT_EQ(first_bad<int32_t>(ElementType::kI32, {INT32_MIN, -16777217}), 1);
  EXPECT_EQ(first_bad<uint32_t>(ElementType::kU32, {0xffffff00, 0xffffffff}), 1);
}

TEST(ElementType, ADoubleIsRoundedUnlessItIsTooLarge) {
  std::vector<float> values;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(first_bad<double>(ElementType::kF64, {0.1, -kInfinity, NAN, 3.4e38, 1e39, 0}, &values), 4);
  EXPECT_EQ(values[0], 0.1f);
  EXPECT_EQ(values[1], -kInfinity);
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST(ElementType, BytesAreSwappedAndMayBeMisaligned) {
  std::vector<std::byte> bytes(1 + 2 * sizeof(double));
  const std::vector<uint64_t> swapped{__builtin_bswap64(std::bit_cast<uint64_t>(1.5)),
                                      __builtin_bswap64(std::bit_cast<uint64_t>(-2.0))};
  std::memcpy(bytes.data() + 1, swapped.data(), 2 * sizeof(double));
  std::vector<float> values(2);
  EXPECT_EQ(widen(ElementType::kF64, true, bytes.data() + 1, 2, values.data()), 2);
  EXPECT_EQ(values, (std::vector<float>{1.5, -2}));
}

}  // namespace
}  // namespace xrun::runtime
