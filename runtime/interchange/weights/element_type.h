// Types of numbers in files of weights, and their conversion to f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/base/units.h"

namespace xrun::runtime {

enum class ElementType : uint8_t {
  kBool,  // a byte; true unless it is 0
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBf16,
  kF32,
  kF64,
  kF8E4M3,      // without infinities
  kF8E5M2,      // with infinities
  kF8E4M3Fnuz,  // FNUZ: no infinities, no -0, which is the NaN, and an exponent that is larger by 1
  kF8E5M2Fnuz,
  kF8E8M0,  // a power of two: 2^(bits - 127); 255 is the NaN
};

Bytes bytes_of(ElementType type);

// Converts `count` elements at `from`, which need not be aligned. Floats of 64 bits are rounded to the nearest f32.
// Returns the index of the first element that has no f32: an integer that would be rounded, or a finite float that is
// too large. Returns `count` if there is no such element.
int64_t widen(ElementType type, bool big_endian, const std::byte* from, int64_t count, float* to);

}  // namespace xrun::runtime
