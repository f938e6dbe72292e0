// Arithmetic of f32 and f64.
// Tests: tests/ptx/floats_test.cpp
#include <algorithm>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"
#include "tests/support/ptx/instructions/rounding.h"

namespace xrun::ptx {

namespace {

template <class T, class Run, bool kPlain, size_t... kPlaces>
void run_arithmetic(Warp& warp, const Instruction& in, uint32_t mask, std::index_sequence<kPlaces...> /*places*/) {
  const bool flush = (in.extra & kFlush) != 0;
  const bool saturate = (in.extra & kSaturate) != 0;
  const int mode = mode_of(in);
  Register& to = warp[in.reg[0]];
  const std::array<const Register*, sizeof...(kPlaces)> from{&warp[in.reg[1 + kPlaces]]...};
  const auto input = [&](size_t place, uint32_t lane) {
    const T value = get<T>(*from[place], lane);
    return flush ? flushed(value) : value;
  };
  for_lanes(mask, [&](uint32_t lane) {
    T result;
    if constexpr (kPlain) {
      result = Run{}(input(kPlaces, lane)...);
    } else {
      result = in_mode(mode, Run{}, input(kPlaces, lane)...);
    }
    result = flush ? flushed(result) : result;
    result = saturate ? saturated_to_one(result) : result;
    put(to, lane, canonical(result));
  });
}

template <class T, class Run, size_t kSources>
Handler arithmetic(int mode) {
  if (mode == FE_TONEAREST) {
    return [](Warp& warp, const Instruction& in, uint32_t mask) {
      run_arithmetic<T, Run, true>(warp, in, mask, std::make_index_sequence<kSources>());
    };
  }
  return [](Warp& warp, const Instruction& in, uint32_t mask) {
    run_arithmetic<T, Run, false>(warp, in, mask, std::make_index_sequence<kSources>());
  };
}

// Functors rather than lambdas, so that their types have names.
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    return std::fma(a, b, c);
  }
};
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
struct SquareRoot {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};

// -0 is less than +0. With one NaN the other number is the result, with `.NaN` a NaN.
template <class T, bool kLargest>
void run_extreme(Warp& warp, const Instruction& in, uint32_t mask) {
  const bool flush = (in.extra & kFlush) != 0;
  for_lanes(mask, [&](uint32_t lane) {
    T a = get<T>(warp[in.reg[1]], lane);
    T b = get<T>(warp[in.reg[2]], lane);
    a = flush ? flushed(a) : a;
    b = flush ? flushed(b) : b;
    T result;
    if (std::isnan(a) || std::isnan(b)) {
      const bool keeps = (in.extra & kNan) != 0;
      result = keeps ? std::numeric_limits<T>::quiet_NaN() : std::isnan(a) ? b : a;
    } else if (a == b) {
      result = (std::signbit(a) != kLargest) ? a : b;
    } else {
      result = (a > b) == kLargest ? a : b;
    }
    put(warp[in.reg[0]], lane, canonical(result));
  });
}

template <class T, bool kNegate>
void run_sign(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    T value = get<T>(warp[in.reg[1]], lane);
    value = (in.extra & kFlush) != 0 ? flushed(value) : value;
    put(warp[in.reg[0]], lane, kNegate ? -value : std::fabs(value));
  });
}

template <class T>
Handler handler(std::string_view name, int mode) {
  if (name == "add") {
    return arithmetic<T, Add, 2>(mode);
  }
  if (name == "sub") {
    return arithmetic<T, Subtract, 2>(mode);
  }
  if (name == "mul") {
    return arithmetic<T, Multiply, 2>(mode);
  }
  if (name == "fma" || name == "mad") {
    return arithmetic<T, MultiplyAdd, 3>(mode);
  }
  if (name == "div") {
    return arithmetic<T, Divide, 2>(mode);
  }
  if (name == "rcp") {
    return arithmetic<T, Reciprocal, 1>(mode);
  }
  if (name == "sqrt") {
    return arithmetic<T, SquareRoot, 1>(mode);
  }
  if (name == "min" || name == "max") {
    return name == "min" ? run_extreme<T, false> : run_extreme<T, true>;
  }
  if (name == "copysign") {
    return lanewise<T>([](T sign, T value) { return std::copysign(value, sign); });
  }
  return name == "neg" ? run_sign<T, true> : run_sign<T, false>;
}

}  // namespace

bool decode_floats(Decoder& at) {
  static constexpr std::pair<std::string_view, size_t> kNames[] = {
      {"add", 2},  {"sub", 2}, {"mul", 2}, {"fma", 3}, {"mad", 3}, {"div", 2},     {"rcp", 1},
      {"sqrt", 1}, {"min", 2}, {"max", 2}, {"abs", 1}, {"neg", 1}, {"copysign", 2}};
  const std::string_view name = at.opcode();
  const auto* const entry = std::ranges::find(kNames, name, [](const auto& pair) { return pair.first; });
  if (entry == std::end(kNames)) {
    return false;
  }
  const std::optional<int> mode = take_mode(at);
  at.in.extra = (at.take("ftz") ? kFlush : 0) | (at.take("sat") ? kSaturate : 0) | (at.take("NaN") ? kNan : 0);
  const Type type = at.take_type();
  if (type.kind != TypeKind::kFloat || type.bits < 32) {
    at.fail("arithmetic of floating-point numbers needs f32 or f64");
    return true;
  }
  const bool rounds = name != "min" && name != "max" && name != "abs" && name != "neg" && name != "copysign";
  if (rounds && !mode) {
    at.fail("without a rounding mode, products and sums may be fused or not",
            "compile with -fmad=false, or LLVM without contraction");
  }
  at.in.extra |= static_cast<uint64_t>(mode.value_or(FE_TONEAREST)) << kModeShift;
  at.expect_operands(entry->second + 1, entry->second + 1);
  at.destination(0, type);
  for (size_t i = 1; i <= entry->second; ++i) {
    at.source(i, type);
  }
  const int rounding = mode.value_or(FE_TONEAREST);
  at.in.run = type.bits == 32 ? handler<float>(name, rounding) : handler<double>(name, rounding);
  return true;
}

}  // namespace xrun::ptx
