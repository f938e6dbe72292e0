// Each conversion between integers, f32 and f64 has the result of the processor on random operands.
#include <cfenv>
#include <cmath>

#include "tests/ptx/lane_check.h"

namespace xrun::ptx {
namespace {

using Meaning = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

LaneCase conversion(const char* line, int from, int to, Meaning meaning) {
  return {line, {from, from, 32}, to, std::move(meaning)};
}

uint64_t single(float v) { return std::isnan(v) ? 0x7fffffff : bits_of(v); }

#define XRUN_BITS [](uint64_t a, [[maybe_unused]] uint64_t b, [[maybe_unused]] uint64_t c) -> uint64_t

// Calls run(T{}, "s32") for each integer type.
template <class Run>
void for_integers(const Run& run) {
  run(uint8_t{}, "u8");
  run(int8_t{}, "s8");
  run(uint16_t{}, "u16");
  run(int16_t{}, "s16");
  run(uint32_t{}, "u32");
  run(int32_t{}, "s32");
  run(uint64_t{}, "u64");
  run(int64_t{}, "s64");
}

// Operands of the types that a register of 16 bits or more can have; numbers of 8 bits are the low bits.
template <class T>
constexpr int kRegisterBits = sizeof(T) == 1 ? 16 : 8 * static_cast<int>(sizeof(T));

// Each integer type is converted to each integer type, with and without saturation.
TEST(Conversions, BetweenIntegers) {
  for_integers([]<class From>(From /*from*/, const std::string& from) {
    for_integers([&]<class To>(To /*to*/, const std::string& to) {
      const auto run = [&](const char* sat, Meaning meaning) {
        check_lanes({fmt::format("cvt{}.{}.{} %x, %a;", sat, to, from),
                     {kRegisterBits<From>, 16, 16},
                     8 * static_cast<int>(sizeof(To)),
                     std::move(meaning)},
                    {}, 2);
      };
      run("",
          [](uint64_t a, uint64_t, uint64_t) { return static_cast<uint64_t>(static_cast<To>(static_cast<From>(a))); });
      run(".sat", [](uint64_t a, uint64_t, uint64_t) {
        const auto value = static_cast<Int128>(static_cast<From>(a));
        const auto least = static_cast<Int128>(std::numeric_limits<To>::min());
        const auto most = static_cast<Int128>(std::numeric_limits<To>::max());
        return static_cast<uint64_t>(value < least ? least : value > most ? most : value);
      });
    });
  });
}

// Each integer type is converted to f32 and f64 in each rounding mode.
TEST(Conversions, FromIntegersToFloats) {
  static constexpr std::pair<const char*, int> kModes[] = {
      {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};
  const auto run = []<class To, class From>(To /*to*/, From /*from*/, const std::string& types) {
    for (const auto& [name, mode] : kModes) {
      check_lanes({fmt::format("cvt.{}.{} %x, %a;", name, types),
                   {kRegisterBits<From>, 16, 16},
                   8 * static_cast<int>(sizeof(To)),
                   [mode](uint64_t a, uint64_t, uint64_t) {
                     const volatile From value = static_cast<From>(a);
                     std::fesetround(mode);
                     const volatile To result = static_cast<To>(value);
                     std::fesetround(FE_TONEAREST);
                     return bits_of(static_cast<To>(result));
                   }},
                  {}, 8);
    }
  };
  for_integers([&]<class From>(From from, const std::string& name) {
    run(float{}, from, "f32." + name);
    run(double{}, from, "f64." + name);
  });
}

// f32 and f64 are converted to each integer type in each rounding mode; numbers beyond the range become its ends.
TEST(Conversions, FromFloatsToIntegersEndAtTheRange) {
  using Rounding = double (*)(double);
  static constexpr std::pair<const char*, Rounding> kRoundings[] = {
      {"rni", std::nearbyint}, {"rzi", std::trunc}, {"rmi", std::floor}, {"rpi", std::ceil}};
  for_integers([]<class To>(To /*to*/, const std::string& to) {
    const auto ended = [](double value) {
      const double beyond = std::ldexp(1.0, std::numeric_limits<To>::digits);
      const double least = std::is_signed_v<To> ? -beyond : 0;
      return static_cast<uint64_t>(value >= beyond ? std::numeric_limits<To>::max()
                                   : value < least ? std::numeric_limits<To>::min()
                                                   : static_cast<To>(value));
    };
    for (const auto& [name, round] : kRoundings) {
      const Rounding rounding = round;
      check_lanes(
          {fmt::format("cvt.{}.{}.f32 %x, %a;", name, to),
           {32, 16, 16},
           8 * static_cast<int>(sizeof(To)),
           [=](uint64_t a, uint64_t, uint64_t) { return ended(rounding(to_float(a))); }},
          [](uint64_t a, uint64_t, uint64_t) { return !std::isnan(to_float(a)); }, 8);
      check_lanes(
          {fmt::format("cvt.{}.{}.f64 %x, %a;", name, to),
           {64, 16, 16},
           8 * static_cast<int>(sizeof(To)),
           [=](uint64_t a, uint64_t, uint64_t) { return ended(rounding(to_double(a))); }},
          [](uint64_t a, uint64_t, uint64_t) { return !std::isnan(to_double(a)); }, 8);
    }
  });
}

TEST(Conversions, ToWholeNumbersThatStayFloats) {
  for (const LaneCase& tried : {
           conversion("cvt.rni.f32.f32 %x, %a;", 32, 32,
                      [](uint64_t a, uint64_t, uint64_t) { return single(std::nearbyint(to_float(a))); }),
           conversion("cvt.rmi.f32.f32 %x, %a;", 32, 32,
                      [](uint64_t a, uint64_t, uint64_t) { return single(std::floor(to_float(a))); }),
           conversion("cvt.rpi.f32.f32 %x, %a;", 32, 32,
                      [](uint64_t a, uint64_t, uint64_t) { return single(std::ceil(to_float(a))); }),
           conversion("cvt.rzi.ftz.f32.f32 %x, %a;", 32, 32,
                      [](uint64_t a, uint64_t, uint64_t) { return single(std::trunc(to_float(a))); }),
       }) {
    check_lanes(tried);
  }
  check_lanes(conversion("cvt.rzi.f64.f64 %x, %a;", 64, 64,
                         [](uint64_t a, uint64_t, uint64_t) { return bits_of(std::trunc(to_double(a))); }),
              [](uint64_t a, uint64_t, uint64_t) { return !std::isnan(to_double(a)); });
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
               "cvt.sat.f32.f32 %x, %a;", 32, 32,
               XRUN_BITS { return to_float(a) > 0 ? bits_of(std::fmin(to_float(a), 1.0F)) : 0; }),
       }) {
    check_lanes(tried);
  }
}

TEST(Conversions, ANanConvertedToAnIntegerIsAFault) {
  const auto module = module_of(kernel_text("mov.f32 %f1, 0f7FC00000;\ncvt.rzi.s32.f32 %r1, %f1;\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const Execution done = execute(*module, "test", {.arguments = {0, 0, 0, 0}}, memory, {});
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kArithmetic);
}

}  // namespace
}  // namespace xrun::ptx
