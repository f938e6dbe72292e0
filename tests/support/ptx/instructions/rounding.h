// Rounding and subnormal numbers of floating-point instructions.
#pragma once

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "tests/support/ptx/decoder.h"

namespace xrun::ptx {

// Instruction::extra of floating-point instructions.
inline constexpr uint64_t kFlush = 1;     // .ftz
inline constexpr uint64_t kSaturate = 2;  // .sat
inline constexpr uint64_t kNan = 4;       // .NaN
inline constexpr uint64_t kRelu = 8;      // .relu
inline constexpr uint64_t kFinite = 16;   // .satfinite
inline constexpr int kModeShift = 32;     // the mode of <cfenv>
inline constexpr int kIntegralShift = 48;

inline int mode_of(const Instruction& in) { return static_cast<int>(in.extra >> kModeShift & 0xffff); }

// Rounding of a floating-point number to a whole number.
enum class Integral : uint8_t { kNone, kNearest, kZero, kDown, kUp };
inline Integral integral_of(const Instruction& in) { return static_cast<Integral>(in.extra >> kIntegralShift & 0xff); }

template <class T>
T whole(Integral integral, T value) {
  switch (integral) {
    case Integral::kNone:
      return value;
    case Integral::kNearest:
      return std::nearbyint(value);
    case Integral::kZero:
      return std::trunc(value);
    case Integral::kDown:
      return std::floor(value);
    case Integral::kUp:
      return std::ceil(value);
  }
  return value;
}

// Takes `.rn`, `.rz`, `.rm` or `.rp`.
inline std::optional<int> take_mode(Decoder& at) {
  static constexpr std::pair<std::string_view, int> kModes[] = {
      {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  for (const auto& [name, mode] : kModes) {
    if (at.take(name)) {
      return mode;
    }
  }
  return std::nullopt;
}

// A subnormal number becomes a zero with its sign. A result is rounded first; whether a GPU flushes before rounding can
// only be seen on one.
template <class T>
T flushed(T value) {
  return std::fabs(value) < std::numeric_limits<T>::min() ? std::copysign(T{0}, value) : value;
}

// Instructions of f32 return this NaN whatever NaN they read; those of f64 return the bits of the processor.
template <class T>
T canonical(T value) {
  if constexpr (sizeof(T) == 4) {
    return std::isnan(value) ? std::bit_cast<float>(0x7fffffffU) : value;
  }
  return value;
}

template <class T>
T saturated_to_one(T value) {
  return value > T{0} ? std::min(value, T{1}) : T{0};  // NaN becomes zero
}

// Computes run(inputs...) in a rounding mode. The copies keep the compiler from moving the operation.
template <class Run, class First, class... Rest>
auto in_mode(int mode, const Run& run, First first, Rest... rest) {
  const volatile First copies[] = {first, rest...};
  std::fesetround(mode);
  const auto apply = [&]<size_t... kPlaces>(std::index_sequence<kPlaces...> /*places*/) {
    return run(static_cast<First>(copies[kPlaces])...);
  };
  const volatile auto result = apply(std::make_index_sequence<1 + sizeof...(Rest)>());
  std::fesetround(FE_TONEAREST);
  return std::remove_cv_t<decltype(result)>(result);
}

}  // namespace xrun::ptx
