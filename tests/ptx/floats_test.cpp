// Arithmetic of f32 and f64: each instruction against the processor on random operands.
#include <cfenv>
#include <cmath>

#include "tests/ptx/lane_check.h"

namespace xrun::ptx {
namespace {

constexpr std::array<int, 3> k64{64, 64, 64};

float flush(float v) { return std::fabs(v) < 0x1p-126F ? std::copysign(0.0F, v) : v; }

uint64_t single(float v) { return std::isnan(v) ? 0x7fffffff : bits_of(v); }

// A case whose meaning is a function of f32.
template <class Meaning>
LaneCase of_f32(const char* line, Meaning meaning) {
  return {line, {32, 32, 32}, 32, [meaning](uint64_t a, uint64_t b, uint64_t c) {
            return single(meaning(to_float(a), to_float(b), to_float(c)));
          }};
}

template <class Meaning>
LaneCase of_f64(const char* line, Meaning meaning) {
  return {line, k64, 64, [meaning](uint64_t a, uint64_t b, uint64_t c) {
            return bits_of(meaning(to_double(a), to_double(b), to_double(c)));
          }};
}

// Returns the result of `run`, which the processor computes in a rounding mode of <cfenv>.
template <class Run>
float in_rounding(int mode, const Run& run) {
  const int before = std::fegetround();
  std::fesetround(mode);
  const volatile float result = run();
  std::fesetround(before);
  return result;
}

#define XRUN_SINGLES [](float a, [[maybe_unused]] float b, [[maybe_unused]] float c)
#define XRUN_DOUBLES [](double a, [[maybe_unused]] double b, [[maybe_unused]] double c)

TEST(Floats, ArithmeticIsRoundedToNearest) {
  for (const LaneCase& tried : {
           of_f32(
               "add.rn.f32 %x, %a, %b;", XRUN_SINGLES { return a + b; }),
           of_f32(
               "sub.rn.f32 %x, %a, %b;", XRUN_SINGLES { return a - b; }),
           of_f32(
               "mul.rn.f32 %x, %a, %b;", XRUN_SINGLES { return a * b; }),
           of_f32(
               "fma.rn.f32 %x, %a, %b, %c;", XRUN_SINGLES { return std::fma(a, b, c); }),
           of_f32(
               "div.rn.f32 %x, %a, %b;", XRUN_SINGLES { return a / b; }),
           of_f32(
               "rcp.rn.f32 %x, %a;", XRUN_SINGLES { return 1.0F / a; }),
           of_f32(
               "sqrt.rn.f32 %x, %a;", XRUN_SINGLES { return std::sqrt(a); }),
       }) {
    check_lanes(tried);
  }
}

TEST(Floats, FtzFlushesOperandsAndResults) {
  for (const LaneCase& tried : {
           of_f32(
               "add.rn.ftz.f32 %x, %a, %b;", XRUN_SINGLES { return flush(flush(a) + flush(b)); }),
           of_f32(
               "mul.rn.ftz.f32 %x, %a, %b;", XRUN_SINGLES { return flush(flush(a) * flush(b)); }),
           of_f32(
               "fma.rn.ftz.f32 %x, %a, %b, %c;",
               XRUN_SINGLES { return flush(std::fma(flush(a), flush(b), flush(c))); }),
           of_f32(
               "div.rn.ftz.f32 %x, %a, %b;", XRUN_SINGLES { return flush(flush(a) / flush(b)); }),
           of_f32(
               "sqrt.rn.ftz.f32 %x, %a;", XRUN_SINGLES { return std::sqrt(flush(a)); }),
       }) {
    check_lanes(tried);
  }
}

TEST(Floats, OtherRoundingModes) {
  for (const LaneCase& tried : {
           of_f32(
               "add.rz.f32 %x, %a, %b;",
               XRUN_SINGLES {
                 volatile float p = a;
                 volatile float q = b;
                 return in_rounding(FE_TOWARDZERO, [&] { return p + q; });
               }),
           of_f32(
               "mul.rm.f32 %x, %a, %b;",
               XRUN_SINGLES {
                 volatile float p = a;
                 volatile float q = b;
                 return in_rounding(FE_DOWNWARD, [&] { return p * q; });
               }),
           of_f32(
               "fma.rp.f32 %x, %a, %b, %c;",
               XRUN_SINGLES {
                 volatile float p = a;
                 volatile float q = b;
                 volatile float r = c;
                 return in_rounding(FE_UPWARD, [&] { return std::fma(p, q, r); });
               }),
           of_f32(
               "add.rn.sat.f32 %x, %a, %b;",
               XRUN_SINGLES {
                 const float sum = a + b;
                 return sum > 0 ? std::fmin(sum, 1.0F) : 0.0F;
               }),
       }) {
    check_lanes(tried);
  }
  // Sums that are exact in f64, so that truncation can be computed from it.
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 1000; ++i) {
    const float a = std::ldexp(static_cast<float>(random() >> 40), -24);
    const float b = std::ldexp(static_cast<float>(random() >> 40), -30);
    const double exact = double{a} + b;
    auto cut = static_cast<float>(exact);
    cut = double{cut} > exact ? std::nextafter(cut, 0.0F) : cut;
    volatile float p = a;
    volatile float q = b;
    EXPECT_EQ(in_rounding(FE_TOWARDZERO, [&] { return p + q; }), cut) << "the oracle itself; seed " << kSeed;
  }
}

float least(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) ? b : a;
  }
  return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b);
}

TEST(Floats, ExtremesAndSigns) {
  for (const LaneCase& tried : {
           of_f32(
               "min.f32 %x, %a, %b;", XRUN_SINGLES { return least(a, b); }),
           of_f32(
               "max.f32 %x, %a, %b;", XRUN_SINGLES { return -least(-a, -b); }),
           of_f32(
               "max.ftz.f32 %x, %a, %b;", XRUN_SINGLES { return -least(-flush(a), -flush(b)); }),
           of_f32(
               "min.NaN.f32 %x, %a, %b;", XRUN_SINGLES { return std::isnan(a) || std::isnan(b) ? NAN : least(a, b); }),
           LaneCase{"neg.f32 %x, %a;", {32, 32, 32}, 32, [](uint64_t a, uint64_t, uint64_t) { return a ^ 0x80000000; }},
           LaneCase{"abs.f32 %x, %a;", {32, 32, 32}, 32, [](uint64_t a, uint64_t, uint64_t) { return a & 0x7fffffff; }},
       }) {
    check_lanes(tried);
  }
}

TEST(Floats, ArithmeticOfF64) {
  const auto numbers = [](uint64_t a, uint64_t b, uint64_t c) {
    return std::isfinite(to_double(a)) && std::isfinite(to_double(b)) && std::isfinite(to_double(c));
  };
  for (const LaneCase& tried : {
           of_f64(
               "add.rn.f64 %x, %a, %b;", XRUN_DOUBLES { return a + b; }),
           of_f64(
               "mul.rn.f64 %x, %a, %b;", XRUN_DOUBLES { return a * b; }),
           of_f64(
               "fma.rn.f64 %x, %a, %b, %c;", XRUN_DOUBLES { return std::fma(a, b, c); }),
           of_f64(
               "div.rn.f64 %x, %a, %b;", XRUN_DOUBLES { return a / b; }),
           of_f64(
               "sqrt.rn.f64 %x, %a;", XRUN_DOUBLES { return std::sqrt(std::fabs(a)); }),
           of_f64(
               "neg.f64 %x, %a;", XRUN_DOUBLES { return -a; }),
           of_f64(
               "abs.f64 %x, %a;", XRUN_DOUBLES { return std::fabs(a); }),
       }) {
    const bool root = tried.line.starts_with("sqrt");
    const bool quotient = tried.line.starts_with("div");
    check_lanes(tried, [&](uint64_t a, uint64_t b, uint64_t c) {
      return numbers(a, b, c) && (!root || a >> 63 == 0) && (!quotient || to_double(b) != 0);
    });
  }
}

// Functions that differ between GPUs are refused when the text is loaded.
TEST(Floats, ApproximateInstructionsAreRefusedByName) {
  for (const char* line : {"ex2.approx.ftz.f32 %f1, %f2;", "rcp.approx.f32 %f1, %f2;", "div.full.f32 %f1, %f2, %f3;",
                           "sqrt.approx.f32 %f1, %f2;", "tanh.approx.f32 %f1, %f2;", "lg2.approx.f32 %f1, %f2;"}) {
    const auto module = load_module(kernel_text(std::string("mov.f32 %f2, 0f3F800000;\n") + line + "\n"));
    ASSERT_FALSE(module.ok()) << line;
    EXPECT_NE(module.error().message.find("approximate"), std::string::npos) << module.error().message;
    const std::string opcode = std::string(line).substr(0, std::string(line).find(' '));
    EXPECT_NE(module.error().message.find(opcode), std::string::npos) << module.error().message;
  }
}

TEST(Floats, ProductsThatMayBeFusedAreRefused) {
  const auto module = load_module(kernel_text("mul.f32 %f1, %f2, %f3;\n"));
  ASSERT_FALSE(module.ok());
  EXPECT_NE(module.error().message.find("fused"), std::string::npos) << module.error().message;
}

}  // namespace
}  // namespace xrun::ptx
