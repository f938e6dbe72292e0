// Comparisons and selections.
// Tests: tests/ptx/conversions_test.cpp
#include "tests/support/ptx/groups.h"
#include "tests/support/ptx/lanewise.h"
#include "tests/support/ptx/rounding.h"

namespace xrun::ptx {

namespace {

// Bits of Instruction::extra above those of rounding.h.
constexpr uint64_t kAnd = 1 << 4;
constexpr uint64_t kOr = 1 << 5;
constexpr uint64_t kXor = 1 << 6;
constexpr uint64_t kNotThird = 1 << 7;
constexpr int kCompareShift = 16;

enum class Compare : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kNumbers, kNans };

struct CompareName {
  std::string_view name;
  Compare compare;
  bool unordered;  // true if an operand is NaN
};

constexpr CompareName kCompareNames[] = {
    {"eq", Compare::kEqual, false},        {"ne", Compare::kNotEqual, false},  {"lt", Compare::kLess, false},
    {"le", Compare::kLessEqual, false},    {"gt", Compare::kGreater, false},   {"ge", Compare::kGreaterEqual, false},
    {"lo", Compare::kLess, false},         {"ls", Compare::kLessEqual, false}, {"hi", Compare::kGreater, false},
    {"hs", Compare::kGreaterEqual, false}, {"equ", Compare::kEqual, true},     {"neu", Compare::kNotEqual, true},
    {"ltu", Compare::kLess, true},         {"leu", Compare::kLessEqual, true}, {"gtu", Compare::kGreater, true},
    {"geu", Compare::kGreaterEqual, true}, {"num", Compare::kNumbers, false},  {"nan", Compare::kNans, true},
};

template <class T>
bool compares(Compare compare, bool unordered, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) {
      return unordered;
    }
  }
  switch (compare) {
    case Compare::kEqual:
      return a == b;
    case Compare::kNotEqual:
      return a != b;
    case Compare::kLess:
      return a < b;
    case Compare::kLessEqual:
      return a <= b;
    case Compare::kGreater:
      return a > b;
    case Compare::kGreaterEqual:
      return a >= b;
    case Compare::kNumbers:
      return true;
    case Compare::kNans:
      return false;
  }
  return false;
}

bool combine(uint64_t extra, bool result, bool third) {
  third = third != ((extra & kNotThird) != 0);
  if ((extra & kAnd) != 0) {
    return result && third;
  }
  if ((extra & kOr) != 0) {
    return result || third;
  }
  return (extra & kXor) != 0 ? result != third : result;
}

template <class T>
void run_setp(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto compare = static_cast<Compare>(in.extra >> kCompareShift & 0xff);
  const bool unordered = (in.extra >> (kCompareShift + 8) & 1) != 0;
  const size_t first = in.destinations;
  for_lanes(mask, [&](uint32_t lane) {
    T a = get<T>(warp[in.reg[first]], lane);
    T b = get<T>(warp[in.reg[first + 1]], lane);
    if constexpr (std::is_floating_point_v<T>) {
      a = (in.extra & kFlush) != 0 ? flushed(a) : a;
      b = (in.extra & kFlush) != 0 ? flushed(b) : b;
    }
    const bool result = compares(compare, unordered, a, b);
    const bool third = in.sources == 3 && get<uint8_t>(warp[in.reg[first + 2]], lane) != 0;
    put(warp[in.reg[0]], lane, combine(in.extra, result, third));
    if (in.destinations == 2) {
      put(warp[in.reg[1]], lane, combine(in.extra, !result, third));
    }
  });
}

void decode_setp(Decoder& at) {
  const CompareName* compare = nullptr;
  for (const CompareName& entry : kCompareNames) {
    if (compare == nullptr && at.take(entry.name)) {
      compare = &entry;
    }
  }
  if (compare == nullptr) {
    at.fail("the comparison is missing");
    return;
  }
  const bool joins_and = at.take("and");
  const bool joins_or = !joins_and && at.take("or");
  const bool joins_xor = !joins_and && !joins_or && at.take("xor");
  const bool joins = joins_and || joins_or || joins_xor;
  const bool flush = at.take("ftz");
  const Type type = at.take_type();
  at.expect_operands(joins ? 4 : 3, joins ? 4 : 3);
  const Operand& result = at.operand(0);
  const Type predicate{TypeKind::kPredicate, 1};
  if (result.kind == Operand::Kind::kPair) {
    at.destination(result.parts[0], predicate);
    at.destination(result.parts[1], predicate);
  } else {
    at.destination(result, predicate);
  }
  at.source(1, type);
  at.source(2, type);
  if (joins) {
    at.source(3, predicate);
  }
  at.in.extra = (flush ? kFlush : 0) | (joins_and ? kAnd : 0) | (joins_or ? kOr : 0) | (joins_xor ? kXor : 0) |
                (at.operand(3).negated ? kNotThird : 0) | static_cast<uint64_t>(compare->compare) << kCompareShift |
                (compare->unordered ? uint64_t{1} << (kCompareShift + 8) : 0);
  if (type.kind == TypeKind::kFloat && type.bits >= 32) {
    at.in.run = type.bits == 32 ? run_setp<float> : run_setp<double>;
    return;
  }
  const std::string_view name = compare->name;
  const bool unsigned_name = name == "lo" || name == "ls" || name == "hi" || name == "hs";
  const bool only_equal = type.kind == TypeKind::kBits && name != "eq" && name != "ne";
  if (type.is_float() || type.bits < 16 || compare->unordered || name == "num" || only_equal) {
    at.fail("the type has no such comparison");
    return;
  }
  with_integer(type.bits, type.is_signed() && !unsigned_name, [&]<class T>(T /*type*/) { at.in.run = run_setp<T>; });
}

void run_selp(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    const bool first = get<uint8_t>(warp[in.reg[3]], lane) != 0;
    warp[in.reg[0]].lane[lane] = warp[in.reg[first ? 1 : 2]].lane[lane];
  });
}

}  // namespace

bool decode_comparisons(Decoder& at) {
  if (at.opcode() == "setp") {
    decode_setp(at);
    return true;
  }
  if (at.opcode() != "selp") {
    return false;
  }
  const Type type = at.take_type();
  at.expect_operands(4, 4);
  at.destination(0, type);
  at.source(1, type);
  at.source(2, type);
  at.source(3, {TypeKind::kPredicate, 1});
  at.in.run = run_selp;
  return true;
}

}  // namespace xrun::ptx
