// Arithmetic of integers.
// Tests: tests/ptx/integers_test.cpp
#include <algorithm>
#include <limits>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// The product with twice the bits.
template <class T>
auto wide_product(T a, T b) {
  if constexpr (sizeof(T) == 8) {
    using Wide = std::conditional_t<std::is_signed_v<T>, Int128, Uint128>;
    return static_cast<Wide>(a) * b;
  } else {
    using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    return static_cast<Wide>(a) * b;
  }
}

template <class T>
T high_half(T a, T b) {
  return static_cast<T>(wide_product(a, b) >> (8 * sizeof(T)));
}

template <class T>
T low_half(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class T>
T sum(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <class T>
T difference(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

int32_t saturated(int64_t value) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

// Quotients and remainders. PTX leaves the result of a division by zero open, so it is a fault.
template <class T, bool kRemainder>
void divide(Warp& warp, const Instruction& in, uint32_t mask) {
  Register& to = warp[in.reg[0]];
  const Register& a = warp[in.reg[1]];
  const Register& b = warp[in.reg[2]];
  for_lanes(mask, [&](uint32_t lane) {
    const T x = get<T>(a, lane);
    const T y = get<T>(b, lane);
    if (y == 0) {
      warp.fail(FaultKind::kArithmetic, lane, "an integer is divided by zero");
      return;
    }
    if (std::is_signed_v<T> && y == static_cast<T>(-1)) {  // the quotient of the smallest number overflows
      put(to, lane, kRemainder ? T{0} : difference(T{0}, x));
      return;
    }
    put(to, lane, static_cast<T>(kRemainder ? x % y : x / y));
  });
}

void decode_product(Decoder& at, Type type, bool adds) {
  const bool wide = at.take("wide");
  const bool high = !wide && at.take("hi");
  if (!wide && !high && !at.take("lo")) {
    at.fail("one of `.lo`, `.hi` and `.wide` is missing");
  }
  const Type result = wide ? Type{type.kind, 2 * type.bits} : type;
  at.destination(0, result);
  at.source(1, type);
  at.source(2, type);
  if (adds) {
    at.source(3, result);
  }
  with_integer(type.bits, type.is_signed(), [&]<class T>(T /*type*/) {
    if constexpr (sizeof(T) >= 2) {
      if (wide) {
        if constexpr (sizeof(T) <= 4) {
          // The third source is wider than the others, so it is read with its own type.
          at.in.run = [](Warp& warp, const Instruction& in, uint32_t mask) {
            using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
            const bool third = in.sources == 3;
            Register& to = warp[in.reg[0]];
            for_lanes(mask, [&](uint32_t lane) {
              const Wide product = wide_product(get<T>(warp[in.reg[1]], lane), get<T>(warp[in.reg[2]], lane));
              const Wide addend = third ? get<Wide>(warp[in.reg[3]], lane) : 0;
              put(to, lane, sum(product, addend));
            });
          };
        } else {
          at.fail("products of 128 bits are not executed");
        }
      } else if (adds) {
        at.in.run = high ? lanewise<T>([](T a, T b, T c) { return sum(high_half(a, b), c); })
                         : lanewise<T>([](T a, T b, T c) { return sum(low_half(a, b), c); });
      } else {
        at.in.run = high ? lanewise<T>([](T a, T b) { return high_half(a, b); })
                         : lanewise<T>([](T a, T b) { return low_half(a, b); });
      }
    }
  });
}

template <class T>
Handler binary(std::string_view name) {
  if (name == "add") {
    return lanewise<T>([](T a, T b) { return sum(a, b); });
  }
  if (name == "sub") {
    return lanewise<T>([](T a, T b) { return difference(a, b); });
  }
  if (name == "min") {
    return lanewise<T>([](T a, T b) { return std::min(a, b); });
  }
  if (name == "max") {
    return lanewise<T>([](T a, T b) { return std::max(a, b); });
  }
  return name == "div" ? divide<T, false> : divide<T, true>;
}

}  // namespace

bool decode_integers(Decoder& at) {
  static constexpr std::string_view kNames[] = {"add", "sub", "mul", "mad", "div", "rem",
                                                "abs", "neg", "min", "max", "sad"};
  const std::string_view name = at.opcode();
  if (std::ranges::find(kNames, name) == std::end(kNames)) {
    return false;
  }
  for (const std::string_view word : at.statement().words) {
    Type type;
    if (find_type(word, type) && type.is_float()) {
      return false;
    }
  }
  const Type type = at.take_type();
  if (type.bits < 16) {
    at.fail("arithmetic needs 16, 32 or 64 bits");
    return true;
  }
  if (name == "mul" || name == "mad") {
    at.expect_operands(name == "mul" ? 3 : 4, name == "mul" ? 3 : 4);
    decode_product(at, type, name == "mad");
    return true;
  }
  const bool single = name == "abs" || name == "neg";
  const size_t expected = single ? 2 : name == "sad" ? 4 : 3;
  at.expect_operands(expected, expected);
  at.destination(0, type);
  at.source(1, type);
  if (!single) {
    at.source(2, type);
  }
  if (name == "sad") {
    at.source(3, type);
  }
  const bool saturates = at.take("sat");
  if (saturates && (type != Type{TypeKind::kSigned, 32} || (name != "add" && name != "sub"))) {
    at.fail("only `add` and `sub` of `.s32` saturate");
  }
  if (saturates) {
    at.in.run = name == "add" ? lanewise<int32_t>([](int32_t a, int32_t b) { return saturated(int64_t{a} + b); })
                              : lanewise<int32_t>([](int32_t a, int32_t b) { return saturated(int64_t{a} - b); });
    return true;
  }
  with_integer(type.bits, type.is_signed(), [&]<class T>(T /*type*/) {
    if (name == "neg") {
      at.in.run = lanewise<T>([](T a) { return difference(T{0}, a); });
    } else if (name == "abs") {
      at.in.run = lanewise<T>([](T a) { return a < T{0} ? difference(T{0}, a) : a; });
    } else if (name == "sad") {
      at.in.run = lanewise<T>([](T a, T b, T c) { return sum(c, a < b ? difference(b, a) : difference(a, b)); });
    } else {
      at.in.run = binary<T>(name);
    }
  });
  return true;
}

}  // namespace xrun::ptx
