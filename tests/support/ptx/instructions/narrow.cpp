// Tests: tests/ptx/narrow_test.cpp
#include "tests/support/ptx/instructions/narrow.h"

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

namespace xrun::ptx {

namespace {

// Moves an even number one step towards the side on which the exact value lies.
double to_odd(double rounded, bool exact_is_larger) {
  const auto bits = std::bit_cast<uint64_t>(rounded);
  if ((bits & 1) != 0) {
    return rounded;
  }
  return std::bit_cast<double>(exact_is_larger == (rounded > 0) ? bits + 1 : bits - 1);
}

// 2^exponent for the exponents of normal numbers.
double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

// Rounds a magnitude to a whole number.
double rounded(double magnitude, int mode, bool negative) {
  if (mode == FE_TONEAREST) {
    return std::nearbyint(magnitude);
  }
  const bool away = mode == (negative ? FE_DOWNWARD : FE_UPWARD);
  return away ? std::ceil(magnitude) : std::floor(magnitude);
}

}  // namespace

double decode(const Format& format, uint32_t bits) {
  const uint32_t exponent_mask = (1U << format.exponent_bits) - 1;
  const uint32_t fraction_mask = (1U << format.fraction_bits) - 1;
  const uint32_t exponent = bits >> format.fraction_bits & exponent_mask;
  const uint32_t fraction = bits & fraction_mask;
  const bool negative = (bits >> (format.exponent_bits + format.fraction_bits) & 1) != 0;
  if (exponent == exponent_mask && (format.infinities || fraction == fraction_mask)) {
    if (!format.infinities || fraction != 0) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return negative ? -HUGE_VAL : HUGE_VAL;
  }
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const uint32_t significand = exponent == 0 ? fraction : fraction | 1U << format.fraction_bits;
  const int unit = (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias - format.fraction_bits;
  const double magnitude = static_cast<double>(significand) * power_of_two(unit);
  return negative ? -magnitude : magnitude;
}

uint32_t encode(const Format& format, double value, int mode, bool finite) {
  const int width = format.exponent_bits + format.fraction_bits;
  if (std::isnan(value)) {
    return (1U << width) - 1;
  }
  const bool negative = std::signbit(value);
  const uint32_t sign = negative ? 1U << width : 0;
  const uint32_t infinity = ((1U << format.exponent_bits) - 1) << format.fraction_bits;
  const uint32_t largest = format.infinities ? infinity - 1 : (1U << width) - 2;
  const bool keeps = finite || !format.infinities;
  if (value == 0 || std::isinf(value)) {
    return sign | (value == 0 ? 0 : keeps ? largest : infinity);
  }
  const double magnitude = std::fabs(value);
  const int lowest = 2 - (1 << (format.exponent_bits - 1));  // exponent of the smallest normal number
  const int exponent = std::max(static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023, lowest);
  if (exponent < 1 << format.exponent_bits) {
    const double units = rounded(magnitude * power_of_two(format.fraction_bits - exponent), mode, negative);
    const auto place = static_cast<uint32_t>(exponent - lowest) << format.fraction_bits;
    const uint32_t code = place + static_cast<uint32_t>(units);
    if (code <= largest) {
      return sign | code;
    }
  }
  const bool away = mode == FE_TONEAREST || mode == (negative ? FE_DOWNWARD : FE_UPWARD);
  return sign | (keeps || !away ? largest : infinity);
}

double sum_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) {
    return sum;
  }
  // The error of the sum, exactly. Source: Knuth, "The Art of Computer Programming", volume 2, 4.2.2.
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  return error == 0 ? sum : to_odd(sum, error > 0);
}

double integer_to_odd(Int128 value) {
  const auto near = static_cast<double>(value);
  const auto back = static_cast<Int128>(near);
  return back == value ? near : to_odd(near, value > back);
}

}  // namespace xrun::ptx
