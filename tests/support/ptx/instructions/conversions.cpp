// Conversions between types.
// Tests: tests/ptx/conversions_test.cpp
#include <algorithm>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"
#include "tests/support/ptx/instructions/narrow_conversions.h"
#include "tests/support/ptx/instructions/rounding.h"

namespace xrun::ptx {

namespace {

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

// Numbers beyond the range become its ends. GPUs differ in the result for NaN, so it is a fault.
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

// Converts integers or floats to floats.
template <class To, class From>
void run_to_float(Warp& warp, const Instruction& in, uint32_t mask) {
  const int mode = mode_of(in);
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
  const bool away = at.take("rna");
  const std::optional<int> mode = take_mode(at);
  const Integral integral = take_integral(at);
  at.in.extra = (at.take("ftz") ? kFlush : 0) | (at.take("sat") ? kSaturate : 0) | (at.take("relu") ? kRelu : 0) |
                (at.take("satfinite") ? kFinite : 0) |
                static_cast<uint64_t>(mode.value_or(FE_TONEAREST)) << kModeShift |
                static_cast<uint64_t>(integral) << kIntegralShift;
  const Type to = at.take_type();
  const Type from = at.take_type();
  if (at.failed()) {
    return true;
  }
  if (is_narrow(to) || is_narrow(from) || to.kind == TypeKind::kTf32) {
    decode_narrow_conversion(at, to, from, away, mode.has_value());
    return true;
  }
  at.expect_operands(2, 2);
  at.destination(0, to, false);
  at.source(1, from, false);
  if (to.bits == 1 || from.bits == 1 || away || (at.in.extra & (kRelu | kFinite)) != 0) {
    at.fail("the machine does not convert between these types in this way");
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
