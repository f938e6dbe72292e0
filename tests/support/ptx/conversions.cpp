// Conversions between types.
// Tests: tests/ptx/conversions_test.cpp
#include <algorithm>
#include <immintrin.h>

#include "tests/support/ptx/groups.h"
#include "tests/support/ptx/lanewise.h"
#include "tests/support/ptx/rounding.h"

namespace xrun::ptx {

namespace {

// Rounding to a whole number, in Instruction::extra from kIntegralShift on; 0: none.
constexpr int kIntegralShift = 32;
enum class Integral : uint8_t { kNone, kNearest, kZero, kDown, kUp };

Integral integral_of(const Instruction& in) { return static_cast<Integral>(in.extra >> kIntegralShift & 0xff); }

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

// f32 to bf16: to nearest even, or towards zero. NaN becomes 0x7fff.
uint16_t to_bfloat(float value, bool to_zero) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) {
    return 0x7fff;
  }
  return static_cast<uint16_t>((to_zero ? bits : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class To, class From>
void run_integers(Warp& warp, const Instruction& in, uint32_t mask) {
  const bool saturate = (in.extra & kSaturate) != 0;
  for_lanes(mask, [&](uint32_t lane) {
    const From value = get<From>(warp[in.reg[1]], lane);
    if (saturate) {
      const auto wide = static_cast<Int128>(value);
      put(warp[in.reg[0]], lane,
          static_cast<To>(std::clamp<Int128>(wide, std::numeric_limits<To>::min(), std::numeric_limits<To>::max())));
    } else {
      put(warp[in.reg[0]], lane, static_cast<To>(value));
    }
  });
}

// Numbers beyond the range become its ends. PTX and the generations differ in the result for NaN, so it is a fault.
template <class To, class From>
void run_to_integer(Warp& warp, const Instruction& in, uint32_t mask) {
  const double least = static_cast<double>(std::numeric_limits<To>::min());
  const double beyond = std::ldexp(1.0, std::numeric_limits<To>::digits);
  for_lanes(mask, [&](uint32_t lane) {
    const From input = get<From>(warp[in.reg[1]], lane);
    if (std::isnan(input)) {
      warp.fail(FaultKind::kArithmetic, lane, "a NaN is converted to an integer");
      return;
    }
    const double value = whole<double>(integral_of(in), (in.extra & kFlush) != 0 ? flushed(input) : input);
    const To result = value <= least    ? std::numeric_limits<To>::min()
                      : value >= beyond ? std::numeric_limits<To>::max()
                                        : static_cast<To>(value);
    put(warp[in.reg[0]], lane, result);
  });
}

// From integers or floats to floats.
template <class To, class From>
void run_to_float(Warp& warp, const Instruction& in, uint32_t mask) {
  const int mode = static_cast<int>(in.extra >> kModeShift & 0xffff);
  const bool flush = (in.extra & kFlush) != 0;
  for_lanes(mask, [&](uint32_t lane) {
    From value = get<From>(warp[in.reg[1]], lane);
    if constexpr (std::is_floating_point_v<From>) {
      value = flush && sizeof(From) == 4 ? flushed(value) : value;
      value = whole(integral_of(in), value);
    }
    const auto convert = [](From from) { return static_cast<To>(from); };
    To result = mode == FE_TONEAREST ? convert(value) : in_mode(mode, convert, value);
    result = flush && sizeof(To) == 4 ? flushed(result) : result;
    result = (in.extra & kSaturate) != 0 ? saturated_to_one(result) : result;
    put(warp[in.reg[0]], lane, canonical(result));
  });
}

void run_to_bfloat(Warp& warp, const Instruction& in, uint32_t mask) {
  const bool to_zero = static_cast<int>(in.extra >> kModeShift & 0xffff) == FE_TOWARDZERO;
  for_lanes(mask, [&](uint32_t lane) {
    uint32_t result = to_bfloat(get<float>(warp[in.reg[1]], lane), to_zero);
    if (in.sources == 2) {  // the first source is the upper half
      result = result << 16 | to_bfloat(get<float>(warp[in.reg[2]], lane), to_zero);
    }
    put(warp[in.reg[0]], lane, result);
  });
}

void run_to_half(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    const float value = get<float>(warp[in.reg[1]], lane);
    const uint16_t half = _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    put(warp[in.reg[0]], lane, std::isnan(value) ? uint16_t{0x7fff} : half);
  });
}

Integral take_integral(Decoder& at) {
  if (at.take("rni")) {
    return Integral::kNearest;
  }
  if (at.take("rzi")) {
    return Integral::kZero;
  }
  if (at.take("rmi")) {
    return Integral::kDown;
  }
  return at.take("rpi") ? Integral::kUp : Integral::kNone;
}

// Conversions from or to bf16 and f16.
bool decode_narrow(Decoder& at, Type to, Type from, bool rounded) {
  const Type single{TypeKind::kFloat, 32};
  const int mode = static_cast<int>(at.in.extra >> kModeShift & 0xffff);
  if (to.kind == TypeKind::kBfloat && from == single && rounded && (mode == FE_TONEAREST || mode == FE_TOWARDZERO)) {
    at.in.run = run_to_bfloat;
  } else if (to == Type{TypeKind::kFloat, 16} && from == single && rounded && mode == FE_TONEAREST) {
    at.in.run = run_to_half;
  } else if (to == single && from == Type{TypeKind::kBfloat, 16}) {
    at.in.run = lanewise<uint16_t>([](uint16_t a) { return canonical(std::bit_cast<float>(uint32_t{a} << 16)); });
  } else if (to == single && from == Type{TypeKind::kFloat, 16}) {
    at.in.run = lanewise<uint16_t>([](uint16_t a) { return canonical(_cvtsh_ss(a)); });
  } else {
    return false;
  }
  return (at.in.extra & (kFlush | kSaturate)) == 0;
}

template <class From>
void choose_from(Decoder& at, Type to, Integral integral, bool rounded) {
  if (to.is_float()) {
    const bool widens = std::is_same_v<From, float> && to.bits == 64;
    const bool same = std::is_floating_point_v<From> && to.bits == static_cast<int>(8 * sizeof(From));
    if (!rounded && !widens && !same) {
      at.fail("the rounding mode is missing");
    }
    at.in.run = to.bits == 32 ? run_to_float<float, From> : run_to_float<double, From>;
    return;
  }
  if (std::is_floating_point_v<From> && integral == Integral::kNone) {
    at.fail("the rounding to a whole number is missing");
  }
  with_integer(to.bits, to.is_signed(), [&]<class To>(To /*type*/) {
    if constexpr (std::is_floating_point_v<From>) {
      at.in.run = run_to_integer<To, From>;
    } else {
      at.in.run = run_integers<To, From>;
    }
  });
}

}  // namespace

bool decode_conversions(Decoder& at) {
  if (at.opcode() != "cvt") {
    return false;
  }
  const std::optional<int> mode = take_mode(at);
  const Integral integral = take_integral(at);
  at.in.extra = (at.take("ftz") ? kFlush : 0) | (at.take("sat") ? kSaturate : 0) |
                static_cast<uint64_t>(mode.value_or(FE_TONEAREST)) << kModeShift |
                static_cast<uint64_t>(integral) << kIntegralShift;
  const Type to = at.take_type();
  const Type from = at.take_type();
  const bool pair = to == Type{TypeKind::kBfloat, 32};
  at.expect_operands(pair ? 3 : 2, pair ? 3 : 2);
  at.destination(0, to, false);
  at.source(1, from, false);
  if (pair) {
    at.source(2, from);
  }
  if (at.failed()) {
    return true;
  }
  const bool narrow = (to.is_float() && to.bits == 16) || (from.is_float() && from.bits == 16) ||
                      to.kind == TypeKind::kBfloat || from.kind == TypeKind::kBfloat;
  if (narrow || to.bits == 1 || from.bits == 1) {
    if (to.bits == 1 || from.bits == 1 || !decode_narrow(at, to, from, mode.has_value())) {
      at.fail("the machine does not convert between these types in this way");
    }
  } else if (from.is_float()) {
    from.bits == 32 ? choose_from<float>(at, to, integral, mode.has_value())
                    : choose_from<double>(at, to, integral, mode.has_value());
  } else {
    with_integer(from.bits, from.is_signed(),
                 [&]<class From>(From /*type*/) { choose_from<From>(at, to, integral, mode.has_value()); });
  }
  return true;
}

}  // namespace xrun::ptx
