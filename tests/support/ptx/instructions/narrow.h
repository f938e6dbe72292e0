// Floating-point formats of 8 and 16 bits: to and from f64, in which all their values are exact.
#pragma once

#include <cstdint>

#include "tests/support/ptx/instruction.h"

namespace xrun::ptx {

struct Format {
  int exponent_bits = 0;
  int fraction_bits = 0;
  bool infinities = true;  // false: only the largest code is NaN, and all smaller codes are numbers
};
inline constexpr Format kF16Format{5, 10, true};
inline constexpr Format kBf16Format{8, 7, true};
inline constexpr Format kE5m2Format{5, 2, true};
inline constexpr Format kE4m3Format{4, 3, false};

// The value of a code; bits above the format are ignored.
double decode(const Format& format, uint32_t bits);

// The code of the number of the format that is nearest to `value` in a rounding mode of <cfenv>. A number beyond the
// largest one becomes an infinity, or the largest one if `finite` is set, the format has no infinities or the mode asks
// for it. NaN has all bits but the sign.
uint32_t encode(const Format& format, double value, int mode, bool finite = false);

// a + b and a number rounded to odd: if they are not exact in f64, the last bit is 1. Rounding the result once more to
// at most 51 bits then gives the exact sum's rounding. Source: Boldo and Melquiond, "Emulation of FMA and correctly
// rounded sums", IEEE Transactions on Computers 57 (2008).
double sum_to_odd(double a, double b);
double integer_to_odd(Int128 value);

}  // namespace xrun::ptx
