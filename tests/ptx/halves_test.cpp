// Arithmetic of f16 and bf16 has the results of sums that the processor rounds to odd.
#include <cmath>
#include <immintrin.h>

#include "tests/ptx/lane_check.h"

namespace xrun::ptx {
namespace {

constexpr std::array<int, 3> k16{16, 16, 16};
constexpr std::array<int, 3> k32{32, 32, 32};

// Runs an operation that truncates, and sets the last bit of the result if it was inexact.
template <class T, class Run>
T to_odd(const Run& run) {
  const unsigned int before = _mm_getcsr();
  _mm_setcsr((before & ~0x3fU) | _MM_ROUND_TOWARD_ZERO);
  volatile T result = run();
  const bool inexact = (_mm_getcsr() & _MM_EXCEPT_INEXACT) != 0;
  _mm_setcsr(before);
  const T value = result;
  using Bits = typename BitsOf<sizeof(T)>::Type;
  return inexact && std::isfinite(value) ? std::bit_cast<T>(std::bit_cast<Bits>(value) | Bits{1}) : value;
}

double odd_sum(double a, double b) {
  volatile double x = a;
  volatile double y = b;
  return to_odd<double>([&] { return x + y; });
}

struct Half {
  static double decode(uint64_t code) { return _cvtsh_ss(static_cast<uint16_t>(code)); }
  static uint64_t encode(double value) {
    volatile double x = value;
    const auto single = to_odd<float>([&] { return static_cast<float>(x); });
    return std::isnan(value) ? 0x7fff : _cvtss_sh(single, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
};

struct Bfloat {
  static double decode(uint64_t code) { return to_float(code << 16 & 0xffffffff); }
  static uint64_t encode(double value) {
    if (std::isnan(value)) {
      return 0x7fff;
    }
    volatile double x = value;
    const uint64_t bits = bits_of(to_odd<float>([&] { return static_cast<float>(x); }));
    // A result beyond the range was truncated to the largest f32, and its last bit was set.
    const uint64_t rest = bits & 0xffff;
    return (bits >> 16) + (rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1) != 0) ? 1 : 0);
  }
};

using Meaning = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

template <class Type, class Run>
Meaning single(Run run) {
  return [run](uint64_t a, uint64_t b, uint64_t c) {
    return Type::encode(run(Type::decode(a), Type::decode(b), Type::decode(c)));
  };
}

// The meaning of an instruction for both halves of registers.
Meaning pairs(const Meaning& one) {
  return [one](uint64_t a, uint64_t b, uint64_t c) {
    return (one(a >> 16, b >> 16, c >> 16) & 0xffff) << 16 | (one(a & 0xffff, b & 0xffff, c & 0xffff) & 0xffff);
  };
}

double relu(double v) { return std::isnan(v) || v > 0 ? v : 0; }
double flush(double v) { return std::fabs(v) < 0x1p-14 ? std::copysign(0.0, v) : v; }

template <class Type>
void check_sums(const std::string& type) {
  const auto fma = single<Type>([](double a, double b, double c) { return odd_sum(a * b, c); });
  const auto add = single<Type>([](double a, double b, double /*c*/) { return odd_sum(a, b); });
  const auto sub = single<Type>([](double a, double b, double /*c*/) { return odd_sum(a, -b); });
  const auto mul = single<Type>([](double a, double b, double /*c*/) { return a * b; });
  const auto clipped = single<Type>([](double a, double b, double c) { return relu(odd_sum(a * b, c)); });
  check_lanes({"fma.rn." + type + " %x, %a, %b, %c;", k16, 16, fma});
  check_lanes({"add.rn." + type + " %x, %a, %b;", k16, 16, add});
  check_lanes({"sub.rn." + type + " %x, %a, %b;", k16, 16, sub});
  check_lanes({"mul.rn." + type + " %x, %a, %b;", k16, 16, mul});
  check_lanes({"fma.rn.relu." + type + " %x, %a, %b, %c;", k16, 16, clipped}, {}, 4);
  check_lanes({"fma.rn." + type + "x2 %x, %a, %b, %c;", k32, 32, pairs(fma)}, {}, 8);
  check_lanes({"fma.rn.relu." + type + "x2 %x, %a, %b, %c;", k32, 32, pairs(clipped)}, {}, 16);
  check_lanes({"add.rn." + type + "x2 %x, %a, %b;", k32, 32, pairs(add)}, {}, 8);
  check_lanes({"sub.rn." + type + "x2 %x, %a, %b;", k32, 32, pairs(sub)}, {}, 8);
  check_lanes({"mul.rn." + type + "x2 %x, %a, %b;", k32, 32, pairs(mul)}, {}, 8);
}

TEST(Halves, SumsAndProductsAreRoundedOnce) { check_sums<Half>("f16"); }
TEST(Bfloats, SumsAndProductsAreRoundedOnce) { check_sums<Bfloat>("bf16"); }

TEST(Halves, FtzAndSat) {
  const auto flushed = single<Half>([](double a, double b, double c) {
    return flush(Half::decode(Half::encode(odd_sum(flush(a) * flush(b), flush(c)))));
  });
  const auto ended = single<Half>([](double a, double b, double /*c*/) {
    const double sum = odd_sum(a, b);
    return sum > 0 ? std::fmin(sum, 1) : 0;
  });
  check_lanes({"fma.rn.ftz.f16 %x, %a, %b, %c;", k16, 16, flushed}, {}, 2);
  check_lanes({"add.rn.sat.f16 %x, %a, %b;", k16, 16, ended}, {}, 2);
}

// Returns the smaller number. -0 is smaller than +0, and if one operand is NaN, the result is the other one.
template <class Type>
uint64_t least(uint64_t a, uint64_t b, bool keeps_nan) {
  const double x = Type::decode(a);
  const double y = Type::decode(b);
  if (std::isnan(x) || std::isnan(y)) {
    return keeps_nan || (std::isnan(x) && std::isnan(y)) ? 0x7fff : std::isnan(x) ? b : a;
  }
  return x < y || (x == y && std::signbit(x)) ? a : b;
}

template <class Type>
void check_extremes(const std::string& type) {
  const auto min = [](uint64_t a, uint64_t b, uint64_t /*c*/) { return least<Type>(a, b, false); };
  const auto min_nan = [](uint64_t a, uint64_t b, uint64_t /*c*/) { return least<Type>(a, b, true); };
  const auto max = [](uint64_t a, uint64_t b, uint64_t /*c*/) -> uint64_t {
    const uint64_t found = least<Type>(a ^ 0x8000, b ^ 0x8000, false);
    return found == 0x7fff && std::isnan(Type::decode(a)) ? 0x7fff : found ^ 0x8000;
  };
  check_lanes({"min." + type + " %x, %a, %b;", k16, 16, min});
  check_lanes({"min.NaN." + type + " %x, %a, %b;", k16, 16, min_nan});
  check_lanes({"max." + type + " %x, %a, %b;", k16, 16, max});
  check_lanes({"min." + type + "x2 %x, %a, %b;", k32, 32, pairs(min)}, {}, 8);
  check_lanes({"max." + type + "x2 %x, %a, %b;", k32, 32, pairs(max)}, {}, 8);
  check_lanes({"neg." + type + " %x, %a;", k16, 16, [](uint64_t a, uint64_t, uint64_t) { return a ^ 0x8000; }});
  check_lanes({"abs." + type + "x2 %x, %a;", k32, 32, [](uint64_t a, uint64_t, uint64_t) { return a & 0x7fff7fff; }});
}

TEST(Halves, ExtremesAndSigns) { check_extremes<Half>("f16"); }
TEST(Bfloats, ExtremesAndSigns) { check_extremes<Bfloat>("bf16"); }

TEST(Bfloats, ArithmeticThatTheTargetLacksIsRefused) {
  const auto message = [](const std::string& line) {
    const auto module = load_module(kernel_text(line));
    return module.ok() ? std::string("accepted") : module.error().message;
  };
  EXPECT_NE(message("add.rn.bf16 %h1, %h2, %h3;").find("`sm_80` lacks the instruction"), std::string::npos);
  EXPECT_NE(message("add.bf16x2 %r1, %r2, %r3;").find("fused"), std::string::npos);
  EXPECT_EQ(message("fma.rn.bf16 %h1, %h2, %h3, %h4;"), "accepted");
  EXPECT_NE(message("fma.rn.ftz.bf16 %h1, %h2, %h3, %h4;").find("`.ftz`"), std::string::npos);
}

}  // namespace
}  // namespace xrun::ptx
