#include "runtime/formats/tensors/npy_elements.h"

#include <cmath>
#include <gtest/gtest.h>

namespace xrun::runtime {
namespace {

// The reference is the definition in IEEE 754-2019, section 3.4.
TEST(NpyElements, HalfFloatsHaveTheValuesOfTheirDefinition) {
  for (int bits = 0; bits <= UINT16_MAX; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    const int exponent = bits >> 10 & 0x1f;
    const int fraction = bits & 0x3ff;
    const double sign = bits >= 0x8000 ? -1 : 1;
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if (exponent == 0x1f) {
      ASSERT_TRUE(fraction == 0 ? std::isinf(value) : std::isnan(value)) << bits;
    } else {
      const double exact = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(static_cast<double>(value), sign * exact) << bits;
    }
  }
}

// The values are those of the OCP 8-bit Floating Point Specification, revision 1.0, table 1.
TEST(NpyElements, EightBitFloatsHaveTheLimitsOfTheirSpecification) {
  EXPECT_EQ(f8e4m3_to_float(0x7e), 448.0F);
  EXPECT_TRUE(std::isnan(f8e4m3_to_float(0x7f)));
  EXPECT_TRUE(std::isnan(f8e4m3_to_float(0xff)));
  EXPECT_EQ(f8e4m3_to_float(0x08), 0x1.0p-6F);
  EXPECT_EQ(f8e4m3_to_float(0x01), 0x1.0p-9F);
  EXPECT_EQ(f8e4m3_to_float(0xb8), -1.0F);
  EXPECT_TRUE(std::signbit(f8e4m3_to_float(0x80)));
  EXPECT_EQ(f8e5m2_to_float(0x7b), 57'344.0F);
  EXPECT_TRUE(std::isinf(f8e5m2_to_float(0x7c)));
  EXPECT_TRUE(std::isnan(f8e5m2_to_float(0x7d)));
  EXPECT_EQ(f8e5m2_to_float(0x04), 0x1.0p-14F);
  EXPECT_EQ(f8e5m2_to_float(0x01), 0x1.0p-16F);
  EXPECT_EQ(bf16_to_float(0xc000), -2.0F);
}

std::string text_of(NpyKind kind, std::u32string text, bool is_big_endian = false) {
  NpyHeader header{.kind = kind, .is_big_endian = is_big_endian};
  header.item_bytes = static_cast<Bytes>(text.size() * 4);
  std::string out;
  return append_npy_text(header, reinterpret_cast<const std::byte*>(text.data()), out) ? out : "broken";
}

TEST(NpyElements, TextsLoseTheZerosAtTheirEndAndMustBeUnicode) {
  EXPECT_EQ(text_of(NpyKind::kText, U"Äpfel"), "Äpfel");
  EXPECT_EQ(text_of(NpyKind::kText, std::u32string(U"ab\0\0", 4)), "ab");
  EXPECT_EQ(text_of(NpyKind::kText, std::u32string(U"\0\0", 2)), "");
  EXPECT_EQ(text_of(NpyKind::kText, std::u32string(U"a\0b", 3)), "broken");
  EXPECT_EQ(text_of(NpyKind::kText, {char32_t{0x110000}}), "broken");
  EXPECT_EQ(text_of(NpyKind::kText, {char32_t{0xD800}}), "broken");
  EXPECT_EQ(text_of(NpyKind::kText, {char32_t{0x41000000}}, true), "A");
}

}  // namespace
}  // namespace xrun::runtime
