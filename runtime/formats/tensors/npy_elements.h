// The elements of .npy arrays as numbers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "graph/base/result.h"
#include "runtime/formats/tensors/npy_header.h"

namespace xrun::runtime {

// These convert small floats, exactly: every value of the types is a f32.
float half_to_float(uint16_t bits);
float f8e4m3_to_float(uint8_t bits);
inline float bf16_to_float(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
inline float f8e5m2_to_float(uint8_t bits) { return half_to_float(static_cast<uint16_t>(bits << 8)); }

// Calls use(i, number) for the elements i = 0 .. count - 1 at `from`, in order. The number has the C++ type of the
// element; small floats are given as float, and bools as uint8_t. REQUIRES: numbers, not texts.
template <class Use>
void for_each_number(const NpyHeader& header, const std::byte* from, int64_t count, const Use& use);

// Appends a text, without the zeros at its end; UTF-32 becomes UTF-8. Returns false if a zero is inside of the text, or
// a number is not a character of Unicode. REQUIRES: kind kText or kBytes, and `to` is empty.
bool append_npy_text(const NpyHeader& header, const std::byte* from, std::string& to);

namespace npy_detail {

inline uint8_t swapped(uint8_t bits) { return bits; }
inline uint16_t swapped(uint16_t bits) { return __builtin_bswap16(bits); }
inline uint32_t swapped(uint32_t bits) { return __builtin_bswap32(bits); }
inline uint64_t swapped(uint64_t bits) { return __builtin_bswap64(bits); }

template <class Bits, class Convert, class Use>
void each(bool is_big_endian, const std::byte* from, int64_t count, const Convert& convert, const Use& use) {
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    use(i, convert(is_big_endian ? swapped(bits) : bits));
  }
}

}  // namespace npy_detail

template <class Use>
void for_each_number(const NpyHeader& header, const std::byte* from, int64_t count, const Use& use) {
  using npy_detail::each;
  const bool big = header.is_big_endian;
  const auto as = [](auto number) { return [number](auto bits) { return std::bit_cast<decltype(number)>(bits); }; };
  const bool is_signed = header.kind == NpyKind::kSigned;
  const bool is_float = header.kind == NpyKind::kFloat;
  switch (header.item_bytes) {
    case 1:
      return header.kind == NpyKind::kF8E4M3   ? each<uint8_t>(big, from, count, f8e4m3_to_float, use)
             : header.kind == NpyKind::kF8E5M2 ? each<uint8_t>(big, from, count, f8e5m2_to_float, use)
             : is_signed                       ? each<uint8_t>(big, from, count, as(int8_t{}), use)
                                               : each<uint8_t>(big, from, count, as(uint8_t{}), use);
    case 2:
      return header.kind == NpyKind::kBf16 ? each<uint16_t>(big, from, count, bf16_to_float, use)
             : is_float                    ? each<uint16_t>(big, from, count, half_to_float, use)
             : is_signed                   ? each<uint16_t>(big, from, count, as(int16_t{}), use)
                                           : each<uint16_t>(big, from, count, as(uint16_t{}), use);
    case 4:
      return is_float    ? each<uint32_t>(big, from, count, as(float{}), use)
             : is_signed ? each<uint32_t>(big, from, count, as(int32_t{}), use)
                         : each<uint32_t>(big, from, count, as(uint32_t{}), use);
    default:
      return is_float    ? each<uint64_t>(big, from, count, as(double{}), use)
             : is_signed ? each<uint64_t>(big, from, count, as(int64_t{}), use)
                         : each<uint64_t>(big, from, count, as(uint64_t{}), use);
  }
}

}  // namespace xrun::runtime
