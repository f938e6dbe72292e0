// Arithmetic of f16 and bf16, single and in pairs.
// Tests: tests/ptx/halves_test.cpp
#include <algorithm>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"
#include "tests/support/ptx/instructions/narrow.h"
#include "tests/support/ptx/instructions/rounding.h"

namespace xrun::ptx {

namespace {

// Bits of Instruction::extra above those of rounding.h.
constexpr uint64_t kPair = 1 << 16;

template <Format kFormat>
constexpr uint32_t kSign = 1U << (kFormat.exponent_bits + kFormat.fraction_bits);

template <Format kFormat>
uint32_t flushed_code(uint32_t code) {
  const uint32_t exponents = (kSign<kFormat> - 1) >> kFormat.fraction_bits << kFormat.fraction_bits;
  return (code & exponents) == 0 ? code & kSign<kFormat> : code;
}

// Calls run(codes...) for each half of a pair, or once.
template <size_t kSources, class Run>
void run_parts(Warp& warp, const Instruction& in, uint32_t mask, const Run& run) {
  const int parts = (in.extra & kPair) != 0 ? 2 : 1;
  for_lanes(mask, [&](uint32_t lane) {
    uint32_t result = 0;
    for (int part = 0; part < parts; ++part) {
      std::array<uint32_t, kSources> codes;
      for (size_t i = 0; i < kSources; ++i) {
        codes[i] = get<uint32_t>(warp[in.reg[1 + i]], lane) >> (16 * part) & 0xffff;
      }
      result |= (run(codes) & 0xffff) << (16 * part);
    }
    put(warp[in.reg[0]], lane, result);
  });
}

// Sums and products. Sums are rounded to odd in f64 and products are exact there, so the code is rounded once.
template <Format kFormat, class Run, size_t kSources>
void run_arithmetic(Warp& warp, const Instruction& in, uint32_t mask) {
  const bool flush = (in.extra & kFlush) != 0;
  run_parts<kSources>(warp, in, mask, [&](const std::array<uint32_t, kSources>& codes) {
    std::array<double, kSources> values;
    for (size_t i = 0; i < kSources; ++i) {
      values[i] = decode(kFormat, flush ? flushed_code<kFormat>(codes[i]) : codes[i]);
    }
    double result = Run{}(values);
    if ((in.extra & kRelu) != 0 && !std::isnan(result)) {
      result = result > 0 ? result : 0;
    }
    result = (in.extra & kSaturate) != 0 ? saturated_to_one(result) : result;
    const uint32_t code = encode(kFormat, result, FE_TONEAREST);
    return flush ? flushed_code<kFormat>(code) : code;
  });
}

// Functors rather than lambdas, so that their types have names.
struct Add {
  double operator()(const std::array<double, 2>& v) const { return sum_to_odd(v[0], v[1]); }
};
struct Subtract {
  double operator()(const std::array<double, 2>& v) const { return sum_to_odd(v[0], -v[1]); }
};
struct Multiply {
  double operator()(const std::array<double, 2>& v) const { return v[0] * v[1]; }
};
struct MultiplyAdd {
  double operator()(const std::array<double, 3>& v) const { return sum_to_odd(v[0] * v[1], v[2]); }
};

// -0 is less than +0. With one NaN the other number is the result, with `.NaN` a NaN.
template <Format kFormat, bool kLargest>
void run_extreme(Warp& warp, const Instruction& in, uint32_t mask) {
  const bool flush = (in.extra & kFlush) != 0;
  run_parts<2>(warp, in, mask, [&](std::array<uint32_t, 2> codes) {
    std::array<double, 2> values;
    for (size_t i = 0; i < 2; ++i) {
      codes[i] = flush ? flushed_code<kFormat>(codes[i]) : codes[i];
      values[i] = decode(kFormat, codes[i]);
    }
    const bool first_nan = std::isnan(values[0]);
    const bool second_nan = std::isnan(values[1]);
    if ((first_nan && second_nan) || ((in.extra & kNan) != 0 && (first_nan || second_nan))) {
      return kSign<kFormat> - 1;
    }
    if (first_nan || second_nan) {
      return codes[first_nan ? 1 : 0];
    }
    if (values[0] == values[1]) {
      return codes[std::signbit(values[0]) != kLargest ? 0 : 1];
    }
    return codes[(values[0] > values[1]) == kLargest ? 0 : 1];
  });
}

template <Format kFormat, bool kNegate>
void run_sign(Warp& warp, const Instruction& in, uint32_t mask) {
  run_parts<1>(warp, in, mask, [&](const std::array<uint32_t, 1>& codes) {
    const uint32_t code = (in.extra & kFlush) != 0 ? flushed_code<kFormat>(codes[0]) : codes[0];
    return kNegate ? code ^ kSign<kFormat> : code & ~kSign<kFormat>;
  });
}

template <Format kFormat>
Handler handler(std::string_view name) {
  if (name == "add") {
    return run_arithmetic<kFormat, Add, 2>;
  }
  if (name == "sub") {
    return run_arithmetic<kFormat, Subtract, 2>;
  }
  if (name == "mul") {
    return run_arithmetic<kFormat, Multiply, 2>;
  }
  if (name == "fma") {
    return run_arithmetic<kFormat, MultiplyAdd, 3>;
  }
  if (name == "min" || name == "max") {
    return name == "min" ? run_extreme<kFormat, false> : run_extreme<kFormat, true>;
  }
  return name == "neg" ? run_sign<kFormat, true> : run_sign<kFormat, false>;
}

bool is_narrow(Type type) {
  return type.kind == TypeKind::kBfloat || type.kind == TypeKind::kHalves || type == Type{TypeKind::kFloat, 16};
}

}  // namespace

bool decode_halves(Decoder& at) {
  static constexpr std::pair<std::string_view, size_t> kNames[] = {{"add", 2}, {"sub", 2}, {"mul", 2}, {"fma", 3},
                                                                   {"min", 2}, {"max", 2}, {"abs", 1}, {"neg", 1}};
  const std::string_view name = at.opcode();
  const auto* const entry = std::ranges::find(kNames, name, [](const auto& pair) { return pair.first; });
  const bool narrow = std::ranges::any_of(at.statement().words, [](std::string_view word) {
    Type type;
    return find_type(word, type) && is_narrow(type);
  });
  if (entry == std::end(kNames) || !narrow) {
    return false;
  }
  const bool rounds = entry->second == 3 || name == "add" || name == "sub" || name == "mul";
  if (rounds && !at.take("rn")) {
    at.fail("without a rounding mode, products and sums may be fused or not", "write it with `.rn`");
  }
  const Type type = at.take_type();
  const bool bfloat = type.kind == TypeKind::kBfloat;
  if (bfloat && rounds && entry->second == 2) {
    at.need_target(90);
  }
  at.in.extra = !bfloat && at.take("ftz") ? kFlush : 0;
  if (rounds) {
    at.in.extra |= (!bfloat && at.take("sat") ? kSaturate : 0) | (name == "fma" && at.take("relu") ? kRelu : 0);
  } else if (entry->second == 2) {
    at.in.extra |= at.take("NaN") ? kNan : 0;
  }
  at.in.extra |= type.bits == 32 ? kPair : 0;
  const Type bits{TypeKind::kBits, type.bits};
  at.expect_operands(entry->second + 1, entry->second + 1);
  at.destination(0, bits);
  for (size_t i = 1; i <= entry->second; ++i) {
    at.source(i, bits);
  }
  at.in.run = bfloat ? handler<kBf16Format>(name) : handler<kF16Format>(name);
  return true;
}

}  // namespace xrun::ptx
