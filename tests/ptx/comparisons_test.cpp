// Each comparison has the result of the processor on random operands.
#include <cmath>
#include <immintrin.h>

#include "tests/ptx/lane_check.h"

namespace xrun::ptx {
namespace {

using Meaning = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

#define XRUN_BITS [](uint64_t a, [[maybe_unused]] uint64_t b, [[maybe_unused]] uint64_t c) -> uint64_t

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

TEST(Comparisons, FloatsIncludingNan) {
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

float half(uint64_t code) { return _cvtsh_ss(static_cast<uint16_t>(code)); }
float bfloat(uint64_t code) { return to_float(code << 16 & 0xffffffff); }

TEST(Comparisons, HalvesIncludingNan) {
  for (const LaneCase& tried : {
           comparison(
               "setp.lt.f16 %x, %a, %b;", 16, XRUN_BITS { return half(a) < half(b); }),
           comparison(
               "setp.geu.f16 %x, %a, %b;", 16, XRUN_BITS { return !(half(a) < half(b)); }),
           comparison(
               "setp.eq.bf16 %x, %a, %b;", 16, XRUN_BITS { return bfloat(a) == bfloat(b); }),
           comparison(
               "setp.gt.and.bf16 %x, %a, %b, %c;", 16, XRUN_BITS { return bfloat(a) > bfloat(b) && c != 0; }),
           comparison(
               "setp.gt.ftz.f16 %x, %a, %b;", 16,
               XRUN_BITS {
                 const auto flush = [](float v) { return std::fabs(v) < 0x1p-14F ? 0.0F : v; };
                 return flush(half(a)) > flush(half(b));
               }),
       }) {
    check_lanes(tried);
  }
}

TEST(Comparisons, SetGivesAMaskOrOne) {
  check_lanes({"set.lt.u32.f32 %x, %a, %b;", {32, 32, 32}, 32,
               XRUN_BITS { return to_float(a) < to_float(b) ? 0xffffffff : 0;
}
}  // namespace
);
  check_lanes({"set.lt.f16.f16 %x, %a, %b;", {16, 16, 16}, 16,
               XRUN_BITS { return half(a) < half(b) ? 0x3c00 : 0;
  }  // namespace xrun::ptx
  });
  check_lanes({"set.neu.bf16x2.bf16x2 %x, %a, %b;", {32, 32, 32}, 32, XRUN_BITS {
                 const auto one = [](uint64_t v, uint64_t w) -> uint64_t {
  return bfloat(v & 0xffff) != bfloat(w & 0xffff) ? 0x3f80 : 0;
                 };
                 return one(a >> 16, b >> 16) << 16 | one(a, b);
  }
  });
  check_lanes({"set.gt.u32.f16x2 %x, %a, %b;", {32, 32, 32}, 32, XRUN_BITS {
                 const auto one = [](uint64_t v, uint64_t w) -> uint64_t {
  return half(v & 0xffff) > half(w & 0xffff) ? 0xffff : 0;
                 };
                 return one(a >> 16, b >> 16) << 16 | one(a, b);
  }
  });
  check_lanes({"set.ge.f32.s32 %x, %a, %b;", {32, 32, 32}, 32, XRUN_BITS {
                 return static_cast<int32_t>(a) >= static_cast<int32_t>(b) ? 0x3f800000 : 0;
  }  // namespace xrun::ptx
  });
  }

  }  // namespace
  }  // namespace xrun::ptx
