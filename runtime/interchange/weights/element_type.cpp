// Source of the 8-bit types: Micikevicius et al., "FP8 Formats for Deep Learning", 2022; Noune et al., "8-bit Numerical
// Formats for Deep Neural Networks", 2022 (FNUZ); OCP Microscaling Formats (MX) Specification 1.0, 2023 (E8M0).
#include "runtime/interchange/weights/element_type.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/formats/tensors/npy_elements.h"

namespace xrun::runtime {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

template <int fraction_bits, int bias>
float fnuz_to_float(uint8_t bits) {
  if (bits == 0x80) {
    return kNan;
  }
  const int exponent = (bits & 0x7f) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const float value =
      exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits)
                    : std::ldexp(static_cast<float>((1 << fraction_bits) + fraction), exponent - bias - fraction_bits);
  return (bits & 0x80) != 0 ? -value : value;
}

float e8m0_to_float(uint8_t bits) { return bits == 0xff ? kNan : std::ldexp(1.0f, bits - 127); }

template <class Number>
bool is_exact(Number number) {
  if constexpr (std::is_integral_v<Number>) {
    const uint64_t size = number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
    return size == 0 || 64 - std::countl_zero(size) - std::countr_zero(size) <= std::numeric_limits<float>::digits;
  } else {
    return !std::isfinite(number) || std::isfinite(static_cast<float>(number));
  }
}

template <class Bits>
Bits swapped(Bits bits) {
  if constexpr (sizeof bits == 8) {
    return __builtin_bswap64(bits);
  } else if constexpr (sizeof bits == 4) {
    return __builtin_bswap32(bits);
  } else if constexpr (sizeof bits == 2) {
    return __builtin_bswap16(bits);
  } else {
    return bits;
  }
}

template <class Bits, class Convert>
int64_t each(bool big_endian, const std::byte* from, int64_t count, float* to, const Convert& convert) {
  int64_t first_bad = count;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    const auto number = convert(big_endian ? swapped(bits) : bits);
    if (sizeof bits > sizeof(uint16_t) && !std::is_same_v<decltype(number), const float> && !is_exact(number)) {
      first_bad = std::min(first_bad, i);
    }
    to[i] = static_cast<float>(number);
  }
  return first_bad;
}

// The bits as a number of another type of the same size.
template <class Number>
struct As {
  template <class Bits>
  Number operator()(Bits bits) const {
    return std::bit_cast<Number>(bits);
  }
};

}  // namespace

Bytes bytes_of(ElementType type) {
  using enum ElementType;
  switch (type) {
    case kU16:
    case kI16:
    case kF16:
    case kBf16:
      return 2;
    case kU32:
    case kI32:
    case kF32:
      return 4;
    case kU64:
    case kI64:
    case kF64:
      return 8;
    default:
      return 1;
  }
}

int64_t widen(ElementType type, bool big_endian, const std::byte* from, int64_t count, float* to) {
  const auto all = [&]<class Bits>(Bits, const auto& convert) {
    return each<Bits>(big_endian, from, count, to, convert);
  };
  using enum ElementType;
  switch (type) {
    case kBool:
      return all(uint8_t{}, [](uint8_t bits) { return bits != 0 ? 1.0f : 0.0f; });
    case kU8:
      return all(uint8_t{}, As<uint8_t>());
    case kI8:
      return all(uint8_t{}, As<int8_t>());
    case kU16:
      return all(uint16_t{}, As<uint16_t>());
    case kI16:
      return all(uint16_t{}, As<int16_t>());
    case kU32:
      return all(uint32_t{}, As<uint32_t>());
    case kI32:
      return all(uint32_t{}, As<int32_t>());
    case kU64:
      return all(uint64_t{}, As<uint64_t>());
    case kI64:
      return all(uint64_t{}, As<int64_t>());
    case kF16:
      return all(uint16_t{}, half_to_float);
    case kBf16:
      return all(uint16_t{}, bf16_to_float);
    case kF32:
      return all(uint32_t{}, As<float>());
    case kF64:
      return all(uint64_t{}, As<double>());
    case kF8E4M3:
      return all(uint8_t{}, f8e4m3_to_float);
    case kF8E5M2:
      return all(uint8_t{}, f8e5m2_to_float);
    case kF8E4M3Fnuz:
      return all(uint8_t{}, fnuz_to_float<3, 8>);
    case kF8E5M2Fnuz:
      return all(uint8_t{}, fnuz_to_float<2, 16>);
    case kF8E8M0:
      return all(uint8_t{}, e8m0_to_float);
  }
  return 0;
}

}  // namespace xrun::runtime
