#include "runtime/formats/tensors/npy_elements.h"

#include <cmath>
#include <limits>

#include "graph/base/utf8.h"

namespace xrun::runtime {

float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000U) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {
    const float value = static_cast<float>(fraction) * 0x1.0p-24f;
    return sign != 0 ? -value : value;
  }
  const uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float f8e4m3_to_float(uint8_t bits) {
  const int exponent = bits >> 3 & 0xf;
  const int fraction = bits & 7;
  if (exponent == 15 && fraction == 7) {
    return std::numeric_limits<float>::quiet_NaN();
  }
  const float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                    : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (bits & 0x80) != 0 ? -value : value;
}

bool append_npy_text(const NpyHeader& header, const std::byte* from, std::string& to) {
  if (header.kind == NpyKind::kBytes) {
    const std::string_view all(reinterpret_cast<const char*>(from), static_cast<size_t>(header.item_bytes));
    const size_t last = all.find_last_not_of('\0');
    to += all.substr(0, last == std::string_view::npos ? 0 : last + 1);
    return to.find('\0') == std::string::npos;
  }
  const NpyHeader codes{.kind = NpyKind::kUnsigned, .item_bytes = 4, .is_big_endian = header.is_big_endian};
  bool is_good = true;
  bool has_ended = false;
  for_each_number(codes, from, header.item_bytes / 4, [&](int64_t, auto code) {
    const auto point = static_cast<uint32_t>(code);
    const bool is_surrogate = point >= 0xD800 && point < 0xE000;
    is_good = is_good && point <= 0x10FFFF && !is_surrogate && !(has_ended && point != 0);
    has_ended = has_ended || point == 0;
    if (is_good && point != 0) {
      append_utf8(to, point);
    }
  });
  return is_good;
}

}  // namespace xrun::runtime
