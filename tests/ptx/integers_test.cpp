// Integers, bits and moves: each instruction against C++ on random operands.
#include <algorithm>

#include "tests/ptx/lane_check.h"

namespace xrun::ptx {
namespace {

constexpr std::array<int, 3> k16{16, 16, 16};
constexpr std::array<int, 3> k32{32, 32, 32};
constexpr std::array<int, 3> k64{64, 64, 64};

int64_t s16(uint64_t v) { return static_cast<int16_t>(v); }
int64_t s32(uint64_t v) { return static_cast<int32_t>(v); }
int64_t s64(uint64_t v) { return static_cast<int64_t>(v); }

template <class Meaning>
LaneCase of(const char* line, std::array<int, 3> sources, int result, Meaning meaning) {
  return {line, sources, result,
          [meaning](uint64_t a, uint64_t b, uint64_t c) { return static_cast<uint64_t>(meaning(a, b, c)); }};
}

#define XRUN_LANES [](uint64_t a, [[maybe_unused]] uint64_t b, [[maybe_unused]] uint64_t c)

TEST(Integers, SumsAndProductsWrap) {
  for (const LaneCase& tried : {
           of(
               "add.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return a + b; }),
           of(
               "add.u16 %x, %a, %b;", k16, 16, XRUN_LANES { return a + b; }),
           of(
               "add.s64 %x, %a, %b;", k64, 64, XRUN_LANES { return a + b; }),
           of(
               "sub.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return a - b; }),
           of(
               "sub.s64 %x, %a, %b;", k64, 64, XRUN_LANES { return a - b; }),
           of(
               "add.sat.s32 %x, %a, %b;", k32, 32,
               XRUN_LANES { return std::clamp<int64_t>(s32(a) + s32(b), INT32_MIN, INT32_MAX); }),
           of(
               "sub.sat.s32 %x, %a, %b;", k32, 32,
               XRUN_LANES { return std::clamp<int64_t>(s32(a) - s32(b), INT32_MIN, INT32_MAX); }),
           of(
               "mul.lo.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return a * b; }),
           of(
               "mul.lo.u64 %x, %a, %b;", k64, 64, XRUN_LANES { return a * b; }),
           of(
               "mul.hi.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return s32(a) * s32(b) >> 32; }),
           of(
               "mul.hi.u32 %x, %a, %b;", k32, 32, XRUN_LANES { return a * b >> 32; }),
           of(
               "mul.hi.s64 %x, %a, %b;", k64, 64, XRUN_LANES { return static_cast<Int128>(s64(a)) * s64(b) >> 64; }),
           of(
               "mul.hi.u64 %x, %a, %b;", k64, 64, XRUN_LANES { return static_cast<Uint128>(a) * b >> 64; }),
           of(
               "mul.wide.s32 %x, %a, %b;", k32, 64, XRUN_LANES { return s32(a) * s32(b); }),
           of(
               "mul.wide.u32 %x, %a, %b;", k32, 64, XRUN_LANES { return a * b; }),
           of(
               "mul.wide.s16 %x, %a, %b;", k16, 32, XRUN_LANES { return s16(a) * s16(b); }),
           of(
               "mad.lo.s32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return a * b + c; }),
           of(
               "mad.lo.s64 %x, %a, %b, %c;", k64, 64, XRUN_LANES { return a * b + c; }),
           of(
               "mad.hi.s32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return (s32(a) * s32(b) >> 32) + s32(c); }),
           of(
               "mad.wide.s32 %x, %a, %b, %c;", {32, 32, 64}, 64,
               XRUN_LANES { return static_cast<uint64_t>(s32(a) * s32(b)) + c; }),
           of(
               "mad.wide.u32 %x, %a, %b, %c;", {32, 32, 64}, 64, XRUN_LANES { return a * b + c; }),
       }) {
    check_lanes(tried);
  }
}

TEST(Integers, QuotientsAndRemaindersRoundTowardsZero) {
  const auto divisible = [](uint64_t /*a*/, uint64_t b, uint64_t /*c*/) { return b != 0; };
  for (const LaneCase& tried : {
           of(
               "div.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return s32(a) / s32(b); }),
           of(
               "div.u32 %x, %a, %b;", k32, 32, XRUN_LANES { return a / b; }),
           of(
               "rem.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return s32(a) % s32(b); }),
           of(
               "rem.u32 %x, %a, %b;", k32, 32, XRUN_LANES { return a % b; }),
           of(
               "div.u64 %x, %a, %b;", k64, 64, XRUN_LANES { return a / b; }),
           of(
               "rem.u64 %x, %a, %b;", k64, 64, XRUN_LANES { return a % b; }),
           of(
               "div.s16 %x, %a, %b;", k16, 16, XRUN_LANES { return s16(a) / s16(b); }),
       }) {
    check_lanes(tried, divisible);
  }
}

TEST(Integers, SignsAndExtremes) {
  for (const LaneCase& tried : {
           of(
               "abs.s32 %x, %a;", k32, 32, XRUN_LANES { return s32(a) < 0 ? -s32(a) : s32(a); }),
           of(
               "neg.s32 %x, %a;", k32, 32, XRUN_LANES { return -s32(a); }),
           of(
               "neg.s64 %x, %a;", k64, 64, XRUN_LANES { return uint64_t{0} - a; }),
           of(
               "sad.s32 %x, %a, %b, %c;", k32, 32,
               XRUN_LANES { return (s32(a) < s32(b) ? s32(b) - s32(a) : s32(a) - s32(b)) + s32(c); }),
           of(
               "sad.u32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return (a < b ? b - a : a - b) + c; }),
           of(
               "min.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return std::min(s32(a), s32(b)); }),
           of(
               "min.u32 %x, %a, %b;", k32, 32, XRUN_LANES { return std::min(a, b); }),
           of(
               "max.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return std::max(s32(a), s32(b)); }),
           of(
               "max.u64 %x, %a, %b;", k64, 64, XRUN_LANES { return std::max(a, b); }),
           of(
               "max.s64 %x, %a, %b;", k64, 64, XRUN_LANES { return std::max(s64(a), s64(b)); }),
           of(
               "min.s16 %x, %a, %b;", k16, 16, XRUN_LANES { return std::min(s16(a), s16(b)); }),
       }) {
    check_lanes(tried);
  }
}

TEST(Integers, LogicAndShifts) {
  for (const LaneCase& tried : {
           of(
               "and.b32 %x, %a, %b;", k32, 32, XRUN_LANES { return a & b; }),
           of(
               "or.b64 %x, %a, %b;", k64, 64, XRUN_LANES { return a | b; }),
           of(
               "xor.b16 %x, %a, %b;", k16, 16, XRUN_LANES { return a ^ b; }),
           of(
               "not.b32 %x, %a;", k32, 32, XRUN_LANES { return ~a; }),
           of(
               "cnot.b32 %x, %a;", k32, 32, XRUN_LANES { return a == 0 ? 1 : 0; }),
           of(
               "and.pred %x, %a, %b;", {1, 1, 1}, 1, XRUN_LANES { return a & b; }),
           of(
               "xor.pred %x, %a, %b;", {1, 1, 1}, 1, XRUN_LANES { return a ^ b; }),
           of(
               "not.pred %x, %a;", {1, 1, 1}, 1, XRUN_LANES { return a ^ 1; }),
           of(
               "shl.b32 %x, %a, %b;", k32, 32, XRUN_LANES { return b > 31 ? 0 : a << b; }),
           of(
               "shl.b64 %x, %a, %b;", {64, 32, 32}, 64, XRUN_LANES { return b > 63 ? 0 : a << b; }),
           of(
               "shl.b16 %x, %a, %b;", {16, 32, 32}, 16, XRUN_LANES { return b > 15 ? 0 : a << b; }),
           of(
               "shr.u32 %x, %a, %b;", k32, 32, XRUN_LANES { return b > 31 ? 0 : a >> b; }),
           of(
               "shr.s32 %x, %a, %b;", k32, 32, XRUN_LANES { return s32(a) >> std::min<uint64_t>(b, 31); }),
           of(
               "shr.s64 %x, %a, %b;", {64, 32, 32}, 64, XRUN_LANES { return s64(a) >> std::min<uint64_t>(b, 63); }),
           of(
               "shf.l.wrap.b32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return (b << 32 | a) << (c & 31) >> 32; }),
           of(
               "shf.r.wrap.b32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return (b << 32 | a) >> (c & 31); }),
           of(
               "shf.l.clamp.b32 %x, %a, %b, %c;", k32, 32,
               XRUN_LANES { return (b << 32 | a) << std::min<uint64_t>(c, 32) >> 32; }),
           of(
               "shf.r.clamp.b32 %x, %a, %b, %c;", k32, 32,
               XRUN_LANES { return (b << 32 | a) >> std::min<uint64_t>(c, 32); }),
           of(
               "lop3.b32 %x, %a, %b, %c, 0xE8;", k32, 32, XRUN_LANES { return (a & b) | (a & c) | (b & c); }),
           of(
               "lop3.b32 %x, %a, %b, %c, 0x96;", k32, 32, XRUN_LANES { return a ^ b ^ c; }),
           of(
               "lop3.b32 %x, %a, %b, %c, 0x2A;", k32, 32, XRUN_LANES { return c & ~(a & b); }),
       }) {
    check_lanes(tried);
  }
}

// The definition of PTX, bit by bit.
uint64_t field(uint64_t a, uint64_t position, uint64_t length, int bits, bool is_signed) {
  position &= 0xff;
  length &= 0xff;
  const auto bit = [&](uint64_t i) { return i < static_cast<uint64_t>(bits) ? a >> i & 1 : 0; };
  const uint64_t last = std::min<uint64_t>(position + length - 1, static_cast<uint64_t>(bits - 1));
  const uint64_t sign = is_signed && length != 0 ? bit(last) : 0;
  uint64_t result = 0;
  for (uint64_t i = 0; i < static_cast<uint64_t>(bits); ++i) {
    const bool inside = i < length && position + i < static_cast<uint64_t>(bits);
    result |= (inside ? bit(position + i) : sign) << i;
  }
  return result;
}

uint64_t inserted(uint64_t a, uint64_t into, uint64_t position, uint64_t length, int bits) {
  for (uint64_t i = 0; i < (length & 0xff) && i + (position & 0xff) < static_cast<uint64_t>(bits); ++i) {
    const uint64_t at = i + (position & 0xff);
    into = (into & ~(uint64_t{1} << at)) | (a >> i & 1) << at;
  }
  return into;
}

TEST(Integers, FieldsPermutationsAndCounts) {
  for (const LaneCase& tried : {
           of(
               "bfe.u32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return field(a, b, c, 32, false); }),
           of(
               "bfe.s32 %x, %a, %b, %c;", k32, 32, XRUN_LANES { return field(a, b, c, 32, true); }),
           of(
               "bfe.u64 %x, %a, %b, %c;", {64, 32, 32}, 64, XRUN_LANES { return field(a, b, c, 64, false); }),
           of(
               "bfe.s64 %x, %a, %b, %c;", {64, 32, 32}, 64, XRUN_LANES { return field(a, b, c, 64, true); }),
           of(
               "bfi.b32 %x, %a, %b, %c, 7;", k32, 32, XRUN_LANES { return inserted(a, b, c, 7, 32); }),
           of(
               "bfi.b32 %x, %a, %b, 3, %c;", k32, 32, XRUN_LANES { return inserted(a, b, 3, c, 32); }),
           of(
               "bfi.b64 %x, %a, %b, %c, 40;", {64, 64, 32}, 64, XRUN_LANES { return inserted(a, b, c, 40, 64); }),
           of(
               "prmt.b32 %x, %a, %b, 0x5410;", k32, 32, XRUN_LANES { return (a & 0xffff) | b << 16; }),
           of(
               "prmt.b32 %x, %a, %b, 0x0123;", k32, 32,
               XRUN_LANES { return __builtin_bswap32(static_cast<uint32_t>(a)); }),
           of(
               "prmt.b32 %x, %a, %b, 0xBBBB;", k32, 32, XRUN_LANES { return (a >> 31 & 1) != 0 ? 0xffffffff : 0; }),
           of(
               "prmt.b32 %x, %a, %b, 0x7632;", k32, 32, XRUN_LANES { return a >> 16 | (b & 0xffff0000); }),
           of(
               "popc.b32 %x, %a;", k32, 32, XRUN_LANES { return __builtin_popcountll(a); }),
           of(
               "popc.b64 %x, %a;", k64, 32, XRUN_LANES { return __builtin_popcountll(a); }),
           of(
               "clz.b32 %x, %a;", k32, 32, XRUN_LANES { return a == 0 ? 32 : __builtin_clzll(a) - 32; }),
           of(
               "clz.b64 %x, %a;", k64, 32, XRUN_LANES { return a == 0 ? 64 : __builtin_clzll(a); }),
           of(
               "bfind.u32 %x, %a;", k32, 32, XRUN_LANES { return a == 0 ? -1 : 63 - __builtin_clzll(a); }),
           of(
               "bfind.shiftamt.u32 %x, %a;", k32, 32, XRUN_LANES { return a == 0 ? -1 : __builtin_clzll(a) - 32; }),
           of(
               "bfind.s32 %x, %a;", k32, 32,
               XRUN_LANES {
                 const uint64_t m = s32(a) < 0 ? ~a & 0xffffffff : a;
                 return m == 0 ? -1 : 63 - __builtin_clzll(m);
               }),
           of(
               "brev.b32 %x, %a;", k32, 32,
               XRUN_LANES {
                 uint64_t r = 0;
                 for (int i = 0; i < 32; ++i) {
                   r |= (a >> i & 1) << (31 - i);
                 }
                 return r;
               }),
       }) {
    check_lanes(tried);
  }
}

TEST(Integers, MovesOfPartsAndSelections) {
  for (const LaneCase& tried : {
           of(
               "mov.b64 %x, {%a, %b};", k32, 64, XRUN_LANES { return b << 32 | a; }),
           of(
               "mov.b32 %x, {%a, %b};", k16, 32, XRUN_LANES { return b << 16 | a; }),
           of(
               "mov.b64 {%r5, %x}, %a;", k64, 32, XRUN_LANES { return a >> 32; }),
           of(
               "mov.b32 {%x, _}, %a;", k32, 16, XRUN_LANES { return a; }),
           of(
               "mov.b64 {%x, %h1, %h2, %h3}, %a;", k64, 16, XRUN_LANES { return a; }),
           of(
               "selp.b32 %x, %a, %b, %c;", {32, 32, 1}, 32, XRUN_LANES { return c != 0 ? a : b; }),
           of(
               "selp.b64 %x, %a, -1, %c;", {64, 32, 1}, 64, XRUN_LANES { return c != 0 ? a : ~uint64_t{0}; }),
       }) {
    check_lanes(tried);
  }
}

TEST(Integers, DivisionByZeroIsAFault) {
  const auto module = module_of(kernel_text("mov.u32 %r1, 0;\ndiv.u32 %r2, 7, %r1;\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const Execution done = execute(*module, "test", {.arguments = {0, 0, 0, 0}}, memory, {});
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kArithmetic);
}

}  // namespace
}  // namespace xrun::ptx
