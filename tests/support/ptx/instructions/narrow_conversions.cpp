// Tests: tests/ptx/narrow_conversions_test.cpp
#include "tests/support/ptx/instructions/narrow_conversions.h"

#include <algorithm>

#include "tests/support/ptx/instructions/lanewise.h"
#include "tests/support/ptx/instructions/narrow.h"
#include "tests/support/ptx/instructions/rounding.h"

namespace xrun::ptx {

namespace {

constexpr Type kSingle{TypeKind::kFloat, 32};

// Instruction::extra has the types as a kind, its bits, and another kind and its bits from here on, below the mode.
constexpr int kTypeShift = 8;

uint64_t pack(Type to, Type from) {
  const auto code = [](Type type) { return static_cast<uint64_t>(type.kind) << 7 | static_cast<uint64_t>(type.bits); };
  return (code(to) << 12 | code(from)) << kTypeShift;
}
Type unpack(uint64_t code) { return {static_cast<TypeKind>(code >> 7 & 0x1f), static_cast<int>(code & 0x7f)}; }
Type to_of(const Instruction& in) { return unpack(in.extra >> (kTypeShift + 12)); }
Type from_of(const Instruction& in) { return unpack(in.extra >> kTypeShift); }

bool is_pair(Type type) {
  return type.kind == TypeKind::kHalves || type == Type{TypeKind::kBfloat, 32} ||
         ((type.kind == TypeKind::kE4m3 || type.kind == TypeKind::kE5m2) && type.bits == 16);
}

const Format& format_of(Type type) {
  return type.kind == TypeKind::kBfloat ? kBf16Format
         : type.kind == TypeKind::kE4m3 ? kE4m3Format
         : type.kind == TypeKind::kE5m2 ? kE5m2Format
                                        : kF16Format;
}

// Returns the number in the low bits of a register in f64; integers of 64 bits are rounded to odd.
double value_of(Type type, uint64_t bits) {
  if (is_narrow(type)) {
    return decode(format_of(type), static_cast<uint32_t>(bits));
  }
  if (type.is_float()) {
    return type.bits == 32 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
  }
  Int128 value = 0;
  with_integer(type.bits, type.is_signed(), [&]<class T>(T /*type*/) { value = static_cast<T>(bits); });
  return integer_to_odd(value);
}

// Returns a result other than NaN as the bits of an integer; numbers beyond the range become its ends.
uint64_t integer_of(Type type, double value) {
  uint64_t bits = 0;
  with_integer(type.bits, type.is_signed(), [&]<class T>(T /*type*/) {
    const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
    const double least = static_cast<double>(std::numeric_limits<T>::min());
    bits = static_cast<uint64_t>(value <= least    ? std::numeric_limits<T>::min()
                                 : value >= beyond ? std::numeric_limits<T>::max()
                                                   : static_cast<T>(value));
  });
  return bits;
}

double adjusted(const Instruction& in, double value) {
  value = whole(integral_of(in), value);
  if ((in.extra & kRelu) != 0 && !std::isnan(value)) {
    value = value > 0 ? value : 0;
  }
  return (in.extra & kSaturate) != 0 ? saturated_to_one(value) : value;
}

// Converts one number; the source or the result has 16 bits.
void run_single(Warp& warp, const Instruction& in, uint32_t mask) {
  const Type to = to_of(in);
  const Type from = from_of(in);
  const bool flush = (in.extra & kFlush) != 0;
  for_lanes(mask, [&](uint32_t lane) {
    double value = value_of(from, warp[in.reg[1]].lane[lane]);
    value = flush && from == kSingle ? flushed(static_cast<float>(value)) : value;
    uint64_t result = 0;
    if (is_narrow(to)) {
      result = encode(format_of(to), adjusted(in, value), mode_of(in), (in.extra & kFinite) != 0);
    } else if (!to.is_float()) {
      if (std::isnan(value)) {
        warp.fail(FaultKind::kArithmetic, lane, "a NaN is converted to an integer");
        return;
      }
      result = integer_of(to, adjusted(in, value));
    } else if (to == kSingle) {
      const auto narrow = static_cast<float>(adjusted(in, value));  // exact
      result = std::bit_cast<uint32_t>(canonical(flush ? flushed(narrow) : narrow));
    } else {
      result = std::bit_cast<uint64_t>(adjusted(in, value));
    }
    warp[in.reg[0]].lane[lane] = result;
  });
}

// Converts f32 to bf16, to nearest even, singly or in pairs. A separate function, since most conversions of training
// kernels are of this kind.
void run_to_bfloat(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto rounded = [](const Register& from, uint32_t lane) {
    const auto bits = get<uint32_t>(from, lane);
    return (bits & 0x7fffffff) > 0x7f800000 ? 0x7fffU : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  };
  for_lanes(mask, [&](uint32_t lane) {
    uint32_t result = rounded(warp[in.reg[1]], lane);
    if (in.sources == 2) {  // the first source is the upper half
      result = result << 16 | rounded(warp[in.reg[2]], lane);
    }
    put(warp[in.reg[0]], lane, result);
  });
}

// Converts two f32 numbers, of which the first becomes the upper one, or another pair, to a pair of narrow numbers.
void run_pair(Warp& warp, const Instruction& in, uint32_t mask) {
  const Type to = to_of(in);
  const Type from = from_of(in);
  const bool flush = (in.extra & kFlush) != 0;
  const int width = to.bits / 2;
  for_lanes(mask, [&](uint32_t lane) {
    uint32_t result = 0;
    for (int part = 0; part < 2; ++part) {
      double value = 0;
      if (in.sources == 2) {
        const auto single = get<float>(warp[in.reg[part == 0 ? 2 : 1]], lane);
        value = flush ? flushed(single) : single;
      } else {
        const int from_width = from.bits / 2;
        value = value_of(from, get<uint32_t>(warp[in.reg[1]], lane) >> (part * from_width));
      }
      result |= encode(format_of(to), adjusted(in, value), mode_of(in), (in.extra & kFinite) != 0) << (part * width);
    }
    put(warp[in.reg[0]], lane, result);
  });
}

// Converts f32 to tf32: the 13 lowest bits become zero. `.rna` rounds ties away from zero.
void run_to_tf32(Warp& warp, const Instruction& in, uint32_t mask) {
  const bool away = from_of(in) != kSingle;
  const bool to_zero = mode_of(in) == FE_TOWARDZERO;
  for_lanes(mask, [&](uint32_t lane) {
    const auto bits = get<uint32_t>(warp[in.reg[1]], lane);
    uint32_t result = bits;
    if ((bits & 0x7fffffff) > 0x7f800000) {
      result = 0x7fffffff;
    } else {
      result += away ? 0x1000 : to_zero ? 0 : 0xfff + (bits >> 13 & 1);
      result &= 0xffffe000;
    }
    put(warp[in.reg[0]], lane, result);
  });
}

void decode_tf32(Decoder& at, bool away, bool rounded) {
  if (!away && !rounded) {
    at.fail("the rounding mode is missing");
  }
  if (!away) {
    at.need_target(90);
  }
  if ((at.in.extra & (kFlush | kSaturate | kRelu | kFinite)) != 0 || integral_of(at.in) != Integral::kNone) {
    at.fail("the machine does not convert to tf32 in this way");
  }
  at.in.extra |= pack(kSingle, away ? Type{TypeKind::kTf32, 32} : kSingle);
  at.expect_operands(2, 2);
  at.destination(0, {TypeKind::kBits, 32});
  at.source(1, kSingle);
  at.in.run = run_to_tf32;
}

// Returns whether PTX has a conversion to a pair.
bool pairs_fit(Type to, Type from) {
  const bool bytes = to.kind == TypeKind::kE4m3 || to.kind == TypeKind::kE5m2;
  if (from == kSingle) {
    return true;
  }
  return bytes ? from.kind == TypeKind::kHalves
               : to.kind == TypeKind::kHalves && (from.kind == TypeKind::kE4m3 || from.kind == TypeKind::kE5m2) &&
                     from.bits == 16;
}

}  // namespace

bool is_narrow(Type type) {
  return type.kind == TypeKind::kBfloat || type.kind == TypeKind::kHalves || type.kind == TypeKind::kE4m3 ||
         type.kind == TypeKind::kE5m2 || type == Type{TypeKind::kFloat, 16};
}

void decode_narrow_conversion(Decoder& at, Type to, Type from, bool away, bool rounded) {
  if (to.kind == TypeKind::kTf32 && from == kSingle) {
    decode_tf32(at, away, rounded);
    return;
  }
  const bool pair = is_pair(to);
  const bool bytes = to.kind == TypeKind::kE4m3 || to.kind == TypeKind::kE5m2;
  const bool from_bytes = from.kind == TypeKind::kE4m3 || from.kind == TypeKind::kE5m2;
  const int mode = mode_of(at.in);
  const bool whole_number = integral_of(at.in) != Integral::kNone;
  if (away || (is_pair(from) && !pair) || (pair && !pairs_fit(to, from)) || (!pair && (bytes || from_bytes)) ||
      to.bits == 1 || from.bits == 1 || to.kind == TypeKind::kTf32 || from.kind == TypeKind::kTf32) {
    at.fail("the machine does not convert between these types in this way");
    return;
  }
  const bool finite = (at.in.extra & kFinite) != 0;
  const bool widens = !pair && to.is_float() && (to.bits > from.bits) && from.is_float();
  const bool same = to == from;
  if (!rounded && !widens && !(whole_number && (same || !to.is_float())) && !(same && (at.in.extra & kSaturate) != 0)) {
    at.fail("the rounding mode is missing");
  }
  const bool nearest_or_zero = mode == FE_TONEAREST || (mode == FE_TOWARDZERO && !bytes);
  if ((pair && !nearest_or_zero) || (bytes && !finite) || ((at.in.extra & kRelu) != 0 && !is_narrow(to)) ||
      (pair && (whole_number || (at.in.extra & kSaturate) != 0))) {
    at.fail("the machine does not convert between these types in this way");
  }
  if (bytes || from_bytes) {
    at.need_target(89);
  }
  if ((to.kind == TypeKind::kBfloat || from.kind == TypeKind::kBfloat) && to != kSingle && from != kSingle) {
    at.need_target(90);
  }
  const bool two = pair && from == kSingle;
  at.expect_operands(two ? 3 : 2, two ? 3 : 2);
  at.destination(0, {TypeKind::kBits, to.bits}, false);
  const Type source = is_narrow(from) ? Type{TypeKind::kBits, from.bits} : from;
  at.source(1, source, false);
  if (two) {
    at.source(2, source, false);
  }
  const uint64_t flags = at.in.extra & (kFlush | kSaturate | kRelu | kFinite);
  at.in.extra |= pack(to, from);
  const bool plain = to.kind == TypeKind::kBfloat && from == kSingle && mode == FE_TONEAREST && flags == 0;
  at.in.run = plain && !whole_number ? run_to_bfloat : pair ? run_pair : run_single;
}

}  // namespace xrun::ptx
