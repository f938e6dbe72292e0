// Conversions from and to f16, bf16, tf32 and fp8 have the results of the processor's conversions.
#include <cfenv>
#include <cmath>
#include <immintrin.h>

#include "tests/ptx/lane_check.h"
#include "tests/support/ptx/instructions/narrow.h"

namespace xrun::ptx {
namespace {

using Meaning = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

void check(const std::string& line, int from, int to, const Meaning& meaning,
           const std::function<bool(uint64_t, uint64_t, uint64_t)>& allowed = {}, size_t share = 1) {
  check_lanes({line, {from, from, 32}, to, meaning}, allowed, share);
}

float half(uint64_t code) { return _cvtsh_ss(static_cast<uint16_t>(code)); }
float bfloat(uint64_t code) { return to_float(code << 16 & 0xffffffff); }
uint64_t single(float v) { return std::isnan(v) ? 0x7fffffff : bits_of(v); }
bool is_number(double v) { return !std::isnan(v); }
double relu(double v) { return std::isnan(v) || v > 0 ? v : 0; }

uint64_t to_half(float v) {
  return std::isnan(v) ? 0x7fff : _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
uint64_t to_half_cut(float v) { return std::isnan(v) ? 0x7fff : _cvtss_sh(v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }
uint64_t to_bfloat(float v) {
  const uint64_t bits = bits_of(v);
  const uint64_t rest = bits & 0xffff;
  return std::isnan(v) ? 0x7fff : (bits >> 16) + (rest > 0x8000 || (rest == 0x8000 && (bits >> 16 & 1) != 0) ? 1 : 0);
}
uint64_t to_byte(const Format& format, double v) { return encode(format, v, FE_TONEAREST, true); }

TEST(NarrowConversions, FromAndToSingles) {
  check("cvt.f32.f16 %x, %a;", 16, 32, [](uint64_t a, uint64_t, uint64_t) { return single(half(a)); });
  check("cvt.f32.bf16 %x, %a;", 16, 32, [](uint64_t a, uint64_t, uint64_t) { return single(bfloat(a)); });
  check("cvt.rn.f16.f32 %x, %a;", 32, 16, [](uint64_t a, uint64_t, uint64_t) { return to_half(to_float(a)); });
  check("cvt.rz.f16.f32 %x, %a;", 32, 16, [](uint64_t a, uint64_t, uint64_t) { return to_half_cut(to_float(a)); });
  check("cvt.rn.bf16.f32 %x, %a;", 32, 16, [](uint64_t a, uint64_t, uint64_t) { return to_bfloat(to_float(a)); });
  check("cvt.rz.bf16.f32 %x, %a;", 32, 16,
        [](uint64_t a, uint64_t, uint64_t) { return std::isnan(to_float(a)) ? 0x7fff : a >> 16; });
  check("cvt.rn.relu.bf16.f32 %x, %a;", 32, 16,
        [](uint64_t a, uint64_t, uint64_t) { return to_bfloat(static_cast<float>(relu(to_float(a)))); });
  check("cvt.rn.sat.f16.f32 %x, %a;", 32, 16,
        [](uint64_t a, uint64_t, uint64_t) { return to_half(to_float(a) > 0 ? std::fmin(to_float(a), 1.0F) : 0.0F); });
  check("cvt.ftz.f32.bf16 %x, %a;", 16, 32, [](uint64_t a, uint64_t, uint64_t) {
    const float value = bfloat(a);
    return single(std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value);
  });
}

// The first source is the upper half.
TEST(NarrowConversions, PairsOfHalves) {
  check("cvt.rn.f16x2.f32 %x, %a, %b;", 32, 32,
        [](uint64_t a, uint64_t b, uint64_t) { return to_half(to_float(a)) << 16 | to_half(to_float(b)); });
  check("cvt.rn.bf16x2.f32 %x, %a, %b;", 32, 32,
        [](uint64_t a, uint64_t b, uint64_t) { return to_bfloat(to_float(a)) << 16 | to_bfloat(to_float(b)); });
  check("cvt.rn.relu.bf16x2.f32 %x, %a, %b;", 32, 32, [](uint64_t a, uint64_t b, uint64_t) {
    const auto one = [](uint64_t bits) { return to_bfloat(static_cast<float>(relu(to_float(bits)))); };
    return one(a) << 16 | one(b);
  });
  check("cvt.rn.satfinite.f16x2.f32 %x, %a, %b;", 32, 32, [](uint64_t a, uint64_t b, uint64_t) {
    const auto one = [](uint64_t bits) {
      const float value = to_float(bits);
      return to_half(std::isnan(value) ? value : std::fmax(-65504.0F, std::fmin(value, 65504.0F)));
    };
    return one(a) << 16 | one(b);
  });
}

TEST(NarrowConversions, Bytes) {
  for (const auto& [name, format] : {std::pair{"e4m3", kE4m3Format}, std::pair{"e5m2", kE5m2Format}}) {
    const Format kind = format;
    const std::string type(name);
    check("cvt.rn.satfinite." + type + "x2.f32 %x, %a, %b;", 32, 16, [kind](uint64_t a, uint64_t b, uint64_t) {
      return to_byte(kind, to_float(a)) << 8 | to_byte(kind, to_float(b));
    });
    check(
        "cvt.rn.satfinite.relu." + type + "x2.f32 %x, %a, %b;", 32, 16,
        [kind](uint64_t a, uint64_t b, uint64_t) {
          return to_byte(kind, relu(to_float(a))) << 8 | to_byte(kind, relu(to_float(b)));
        },
        {}, 4);
    check("cvt.rn.satfinite." + type + "x2.f16x2 %x, %a;", 32, 16, [kind](uint64_t a, uint64_t, uint64_t) {
      return to_byte(kind, half(a >> 16)) << 8 | to_byte(kind, half(a & 0xffff));
    });
    check("cvt.rn.f16x2." + type + "x2 %x, %a;", 16, 32, [kind](uint64_t a, uint64_t, uint64_t) {
      const auto one = [&](uint64_t code) {
        return to_half(static_cast<float>(decode(kind, static_cast<uint32_t>(code))));
      };
      return one(a >> 8) << 16 | one(a & 0xff);
    });
  }
}

TEST(NarrowConversions, Tf32DropsTheThirteenLowestBits) {
  const auto rounded = [](uint64_t a, bool away) -> uint64_t {
    if (std::isnan(to_float(a))) {
      return 0x7fffffff;
    }
    const uint64_t rest = a & 0x1fff;
    const bool up = rest > 0x1000 || (rest == 0x1000 && (away || (a >> 13 & 1) != 0));
    return (a >> 13 << 13) + (up ? 0x2000 : 0);
  };
  check("cvt.rna.tf32.f32 %x, %a;", 32, 32, [&](uint64_t a, uint64_t, uint64_t) { return rounded(a, true); });
  check("cvt.rn.tf32.f32 %x, %a;", 32, 32, [&](uint64_t a, uint64_t, uint64_t) { return rounded(a, false); });
  check("cvt.rz.tf32.f32 %x, %a;", 32, 32, [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
    return std::isnan(to_float(a)) ? 0x7fffffff : a >> 13 << 13;
  });
}

TEST(NarrowConversions, IntegersAndDoubles) {
  check("cvt.rn.f16.s32 %x, %a;", 32, 16, [](uint64_t a, uint64_t, uint64_t) {
    return encode(kF16Format, static_cast<double>(static_cast<int32_t>(a)), FE_TONEAREST);
  });
  check("cvt.rn.f16.u16 %x, %a;", 16, 16,
        [](uint64_t a, uint64_t, uint64_t) { return to_half(static_cast<float>(a)); });
  // The number is rounded to f32 with the last bit set if it was inexact, so that the second rounding is right.
  check("cvt.rn.bf16.s64 %x, %a;", 64, 16, [](uint64_t a, uint64_t, uint64_t) {
    const auto value = static_cast<int64_t>(a);
    const uint64_t magnitude = value < 0 ? uint64_t{0} - a : a;
    const int shift = magnitude >> 24 == 0 ? 0 : 40 - __builtin_clzll(magnitude);
    const uint64_t kept = magnitude >> shift;
    const auto near = std::ldexp(static_cast<float>(kept | (kept << shift != magnitude ? 1 : 0)), shift);
    return to_bfloat(value < 0 ? -near : near);
  });
  const auto number = [](uint64_t a, uint64_t, uint64_t) { return is_number(half(a)); };
  check(
      "cvt.rzi.s32.f16 %x, %a;", 16, 32,
      [](uint64_t a, uint64_t, uint64_t) {
        const double value = std::clamp(std::trunc(double{half(a)}), -0x1p31, 0x1p31 - 1);
        return static_cast<uint64_t>(static_cast<int64_t>(value));
      },
      number);
  check(
      "cvt.rni.u8.f16 %x, %a;", 16, 8,
      [](uint64_t a, uint64_t, uint64_t) {
        return static_cast<uint64_t>(std::clamp(std::nearbyint(half(a)), 0.0F, 255.0F));
      },
      number);
  check(
      "cvt.rmi.s64.bf16 %x, %a;", 16, 64,
      [](uint64_t a, uint64_t, uint64_t) {
        const double value = std::floor(double{bfloat(a)});
        return static_cast<uint64_t>(value >= 0x1p63   ? INT64_MAX
                                     : value < -0x1p63 ? INT64_MIN
                                                       : static_cast<int64_t>(value));
      },
      [](uint64_t a, uint64_t, uint64_t) { return is_number(bfloat(a)); });
  check(
      "cvt.f64.f16 %x, %a;", 16, 64, [](uint64_t a, uint64_t, uint64_t) { return bits_of(double{half(a)}); }, number);
  check("cvt.rpi.f16.f16 %x, %a;", 16, 16, [](uint64_t a, uint64_t, uint64_t) { return to_half(std::ceil(half(a))); });
  check("cvt.rn.bf16.f16 %x, %a;", 16, 16, [](uint64_t a, uint64_t, uint64_t) { return to_bfloat(half(a)); });
}

TEST(NarrowConversions, FormsThatPtxLacksAreRefused) {
  for (const char* line :
       {"cvt.e4m3x2.f32 %h1, %f1, %f2;", "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;", "cvt.f16.f32 %h1, %f1;",
        "cvt.rna.f16.f32 %h1, %f1;", "cvt.rn.bf16x2.f16x2 %r1, %r2;", "cvt.rn.relu.f32.f16 %f1, %h1;",
        "cvt.rn.satfinite.e4m3.f32 %h1, %f1;", "cvt.rn.f32.e4m3x2 %f1, %h1;"}) {
    EXPECT_FALSE(load_module(replaced(kernel_text(line), "sm_80", "sm_100")).ok()) << line;
  }
  const auto old = load_module(kernel_text("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;"));
  ASSERT_FALSE(old.ok());
  EXPECT_NE(old.error().message.find("`sm_80` lacks the instruction; it needs `sm_89`"), std::string::npos);
}

}  // namespace
}  // namespace xrun::ptx
