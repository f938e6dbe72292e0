// Conversions and comparisons: each instruction against the processor on random operands.
#include <cfenv>
#include <cmath>
#include <immintrin.h>

#include "tests/ptx/lane_check.h"

namespace xrun::ptx {
namespace {

using Meaning = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

LaneCase conversion(const char* line, int from, int to, Meaning meaning) {
  return {line, {from, from, 32}, to, std::move(meaning)};
}

uint64_t single(float v) { return std::isnan(v) ? 0x7fffffff : bits_of(v); }

// To nearest even, by comparing with both neighbours in f64.
uint64_t bfloat(float v) {
  if (std::isnan(v)) {
    return 0x7fff;
  }
  const auto below = static_cast<uint32_t>(bits_of(v) & 0xffff0000);
  const auto above = below + 0x10000;
  if (std::isinf(v)) {
    return below >> 16;
  }
  // The bits after the largest number stand for 2^128 here.
  const double low = to_float(below);
  const double high = std::isinf(to_float(above)) ? std::copysign(0x1p128, v) : to_float(above);
  const double to_low = std::fabs(double{v} - low);
  const double to_high = std::fabs(high - double{v});
  const bool up = to_high < to_low || (to_high == to_low && (below >> 16 & 1) != 0);
  return (up ? above : below) >> 16;
}

#define XRUN_BITS [](uint64_t a, [[maybe_unused]] uint64_t b, [[maybe_unused]] uint64_t c) -> uint64_t

TEST(Conversions, BetweenIntegers) {
  for (const LaneCase& tried : {
           conversion(
               "cvt.s64.s32 %x, %a;", 32, 64,
               XRUN_BITS { return static_cast<uint64_t>(int64_t{static_cast<int32_t>(a)}); }),
           conversion(
               "cvt.u64.u32 %x, %a;", 32, 64, XRUN_BITS { return a; }),
           conversion(
               "cvt.u32.u64 %x, %a;", 64, 32, XRUN_BITS { return a; }),
           conversion(
               "cvt.u16.u32 %x, %a;", 32, 16, XRUN_BITS { return a; }),
           conversion(
               "cvt.s32.s8 %x, %a;", 32, 32, XRUN_BITS { return static_cast<uint32_t>(static_cast<int8_t>(a)); }),
           conversion(
               "cvt.u32.u16 %x, %a;", 16, 32, XRUN_BITS { return a; }),
           conversion(
               "cvt.s32.s16 %x, %a;", 16, 32, XRUN_BITS { return static_cast<uint32_t>(static_cast<int16_t>(a)); }),
           conversion(
               "cvt.sat.s16.s32 %x, %a;", 32, 16,
               XRUN_BITS {
                 return static_cast<uint64_t>(std::clamp<int32_t>(static_cast<int32_t>(a), -32768, 32767));
               }),
           conversion(
               "cvt.sat.u8.s32 %x, %a;", 32, 16,
               XRUN_BITS { return static_cast<uint64_t>(std::clamp<int32_t>(static_cast<int32_t>(a), 0, 255)); }),
       }) {
    check_lanes(tried);
  }
}

TEST(Conversions, FromIntegersToFloats) {
  for (const LaneCase& tried : {
           conversion(
               "cvt.rn.f32.s32 %x, %a;", 32, 32,
               XRUN_BITS { return bits_of(static_cast<float>(static_cast<int32_t>(a))); }),
           conversion(
               "cvt.rn.f32.u32 %x, %a;", 32, 32, XRUN_BITS { return bits_of(static_cast<float>(a)); }),
           conversion(
               "cvt.rn.f32.u64 %x, %a;", 64, 32, XRUN_BITS { return bits_of(static_cast<float>(a)); }),
           conversion(
               "cvt.rn.f64.s32 %x, %a;", 32, 64,
               XRUN_BITS { return bits_of(static_cast<double>(static_cast<int32_t>(a))); }),
           conversion(
               "cvt.rn.f64.s64 %x, %a;", 64, 64,
               XRUN_BITS { return bits_of(static_cast<double>(static_cast<int64_t>(a))); }),
           conversion(
               "cvt.rn.f32.u16 %x, %a;", 16, 32, XRUN_BITS { return bits_of(static_cast<float>(a)); }),
           conversion(
               "cvt.rz.f32.u32 %x, %a;", 32, 32,
               XRUN_BITS {
                 auto near = static_cast<float>(a);
                 near = static_cast<double>(near) > static_cast<double>(a) ? std::nextafter(near, 0.0F) : near;
                 return bits_of(near);
               }),
       }) {
    check_lanes(tried);
  }
}

TEST(Conversions, FromFloatsToIntegersEndAtTheRange) {
  const auto number = [](uint64_t a, uint64_t /*b*/, uint64_t /*c*/) { return !std::isnan(to_float(a)); };
  const auto clamped = [](double value, double least, double most) { return std::clamp(value, least, most); };
  for (const LaneCase& tried : {
           conversion("cvt.rzi.s32.f32 %x, %a;", 32, 32,
                      [&](uint64_t a, uint64_t, uint64_t) {
                        return static_cast<uint64_t>(
                            static_cast<int64_t>(clamped(std::trunc(to_float(a)), INT32_MIN, INT32_MAX)));
                      }),
           conversion("cvt.rni.s32.f32 %x, %a;", 32, 32,
                      [&](uint64_t a, uint64_t, uint64_t) {
                        return static_cast<uint64_t>(
                            static_cast<int64_t>(clamped(std::nearbyint(to_float(a)), INT32_MIN, INT32_MAX)));
                      }),
           conversion("cvt.rmi.s32.f32 %x, %a;", 32, 32,
                      [&](uint64_t a, uint64_t, uint64_t) {
                        return static_cast<uint64_t>(
                            static_cast<int64_t>(clamped(std::floor(to_float(a)), INT32_MIN, INT32_MAX)));
                      }),
           conversion("cvt.rpi.u32.f32 %x, %a;", 32, 32,
                      [&](uint64_t a, uint64_t, uint64_t) {
                        return static_cast<uint64_t>(clamped(std::ceil(to_float(a)), 0, UINT32_MAX));
                      }),
           conversion(
               "cvt.rni.f32.f32 %x, %a;", 32, 32, XRUN_BITS { return single(std::nearbyint(to_float(a))); }),
           conversion(
               "cvt.rmi.f32.f32 %x, %a;", 32, 32, XRUN_BITS { return single(std::floor(to_float(a))); }),
       }) {
    check_lanes(tried, number);
  }
}

TEST(Conversions, BetweenFloats) {
  for (const LaneCase& tried : {
           conversion(
               "cvt.f64.f32 %x, %a;", 32, 64,
               XRUN_BITS {
                 return std::isnan(to_float(a)) ? bits_of(double{to_float(a)}) : bits_of(double{to_float(a)});
               }),
           conversion(
               "cvt.rn.f32.f64 %x, %a;", 64, 32, XRUN_BITS { return single(static_cast<float>(to_double(a))); }),
           conversion(
               "cvt.rn.bf16.f32 %x, %a;", 32, 16, XRUN_BITS { return bfloat(to_float(a)); }),
           conversion(
               "cvt.rz.bf16.f32 %x, %a;", 32, 16, XRUN_BITS { return std::isnan(to_float(a)) ? 0x7fff : a >> 16; }),
           conversion(
               "cvt.rn.bf16x2.f32 %x, %a, %b;", 32, 32,
               XRUN_BITS { return bfloat(to_float(a)) << 16 | bfloat(to_float(b)); }),
           conversion(
               "cvt.f32.bf16 %x, %a;", 16, 32, XRUN_BITS { return single(to_float(a << 16)); }),
           conversion(
               "cvt.f32.f16 %x, %a;", 16, 32, XRUN_BITS { return single(_cvtsh_ss(static_cast<uint16_t>(a))); }),
           conversion(
               "cvt.sat.f32.f32 %x, %a;", 32, 32,
               XRUN_BITS { return to_float(a) > 0 ? bits_of(std::fmin(to_float(a), 1.0F)) : 0; }),
       }) {
    check_lanes(tried);
  }
}

// All bit patterns of f16, there and back.
TEST(Conversions, HalvesSurviveSingles) {
  check_lanes({.line = ".reg .f32 %s;\ncvt.f32.f16 %s, %a;\ncvt.rn.f16.f32 %x, %s;",
               .source_bits = {16, 16, 16},
               .result_bits = 16,
               .meaning = XRUN_BITS { return (a & 0x7c00) == 0x7c00 && (a & 0x3ff) != 0 ? 0x7fff : a;
}
}  // namespace
);
}  // namespace xrun::ptx

TEST(Conversions, ANanHasNoInteger) {
  const auto module = module_of(kernel_text("mov.f32 %f1, 0f7FC00000;\ncvt.rzi.s32.f32 %r1, %f1;\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const Execution done = execute(*module, "test", {.arguments = {0, 0, 0, 0}}, memory, {});
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kArithmetic);
}

LaneCase comparison(const char* line, int bits, Meaning meaning) {
  return {line, {bits, bits, 1}, 1, std::move(meaning)};
}

TEST(Comparisons, IntegersAreSignedOrNot) {
  for (const LaneCase& tried : {
           comparison(
               "setp.lt.s32 %x, %a, %b;", 32, XRUN_BITS { return static_cast<int32_t>(a) < static_cast<int32_t>(b); }),
           comparison(
               "setp.lt.u32 %x, %a, %b;", 32, XRUN_BITS { return a < b; }),
           comparison(
               "setp.ge.s64 %x, %a, %b;", 64, XRUN_BITS { return static_cast<int64_t>(a) >= static_cast<int64_t>(b); }),
           comparison(
               "setp.hi.u64 %x, %a, %b;", 64, XRUN_BITS { return a > b; }),
           comparison(
               "setp.eq.s16 %x, %a, %b;", 16, XRUN_BITS { return a == b; }),
           comparison(
               "setp.ne.b32 %x, %a, %b;", 32, XRUN_BITS { return a != b; }),
           comparison(
               "setp.le.and.s32 %x, %a, %b, %c;", 32,
               XRUN_BITS { return static_cast<int32_t>(a) <= static_cast<int32_t>(b) && c != 0; }),
           comparison(
               "setp.gt.or.u32 %x, %a, %b, !%c;", 32, XRUN_BITS { return a > b || c == 0; }),
           comparison(
               "setp.eq.xor.s32 %x, %a, %b, %c;", 32, XRUN_BITS { return (a == b) != (c != 0); }),
           comparison(
               "setp.lt.and.s32 %p1|%x, %a, %b, %c;", 32,
               XRUN_BITS { return !(static_cast<int32_t>(a) < static_cast<int32_t>(b)) && c != 0; }),
       }) {
    check_lanes(tried);
  }
}

TEST(Comparisons, FloatsKnowNan) {
  for (const LaneCase& tried : {
           comparison(
               "setp.lt.f32 %x, %a, %b;", 32, XRUN_BITS { return to_float(a) < to_float(b); }),
           comparison(
               "setp.geu.f32 %x, %a, %b;", 32, XRUN_BITS { return !(to_float(a) < to_float(b)); }),
           comparison(
               "setp.eq.f32 %x, %a, %b;", 32, XRUN_BITS { return to_float(a) == to_float(b); }),
           comparison(
               "setp.neu.f32 %x, %a, %b;", 32, XRUN_BITS { return to_float(a) != to_float(b); }),
           comparison(
               "setp.ne.f32 %x, %a, %b;", 32,
               XRUN_BITS { return to_float(a) < to_float(b) || to_float(a) > to_float(b); }),
           comparison(
               "setp.num.f32 %x, %a, %b;", 32,
               XRUN_BITS { return !std::isnan(to_float(a)) && !std::isnan(to_float(b)); }),
           comparison(
               "setp.nan.f64 %x, %a, %b;", 64,
               XRUN_BITS { return std::isnan(to_double(a)) || std::isnan(to_double(b)); }),
           comparison(
               "setp.gt.f64 %x, %a, %b;", 64, XRUN_BITS { return to_double(a) > to_double(b); }),
           comparison(
               "setp.gt.ftz.f32 %x, %a, %b;", 32,
               XRUN_BITS {
                 const auto flush = [](float v) { return std::fabs(v) < 0x1p-126F ? 0.0F : v; };
                 return flush(to_float(a)) > flush(to_float(b));
               }),
       }) {
    check_lanes(tried);
  }
}

}  // namespace
}  // namespace xrun::ptx
