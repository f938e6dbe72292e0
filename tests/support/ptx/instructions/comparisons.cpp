// Comparisons and selections.
// Tests: tests/ptx/comparisons_test.cpp
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"
#include "tests/support/ptx/instructions/narrow.h"
#include "tests/support/ptx/instructions/rounding.h"

namespace xrun::ptx {

namespace {

// Bits of Instruction::extra above those of rounding.h.
constexpr uint64_t kAnd = 1 << 8;
constexpr uint64_t kOr = 1 << 9;
constexpr uint64_t kXor = 1 << 10;
constexpr uint64_t kNotThird = 1 << 11;
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
struct Plain {
  using Type = T;
  static T load(const Register& from, uint32_t lane, bool flush) {
    const T value = get<T>(from, lane);
    if constexpr (std::is_floating_point_v<T>) {
      return flush ? flushed(value) : value;
    }
    return value;
  }
};

template <Format kFormat>
struct Narrow {
  using Type = double;
  static double load(const Register& from, uint32_t lane, bool flush) {
    const double value = decode(kFormat, get<uint16_t>(from, lane));
    const double least = std::ldexp(1.0, 2 - (1 << (kFormat.exponent_bits - 1)));
    return flush && std::fabs(value) < least ? 0 : value;
  }
};

template <class Load>
void run_setp(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto compare = static_cast<Compare>(in.extra >> kCompareShift & 0xff);
  const bool unordered = (in.extra >> (kCompareShift + 8) & 1) != 0;
  const bool flush = (in.extra & kFlush) != 0;
  const size_t first = in.destinations;
  for_lanes(mask, [&](uint32_t lane) {
    const typename Load::Type a = Load::load(warp[in.reg[first]], lane, flush);
    const typename Load::Type b = Load::load(warp[in.reg[first + 1]], lane, flush);
    const bool result = compares(compare, unordered, a, b);
    const bool third = in.sources == 3 && get<uint8_t>(warp[in.reg[first + 2]], lane) != 0;
    put(warp[in.reg[0]], lane, combine(in.extra, result, third) ? in.offset : uint64_t{0});
    if (in.destinations == 2) {
      put(warp[in.reg[1]], lane, combine(in.extra, !result, third));
    }
  });
}

// Executes `set` for both halves of registers.
template <Format kFormat>
void run_set_pair(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto compare = static_cast<Compare>(in.extra >> kCompareShift & 0xff);
  const bool unordered = (in.extra >> (kCompareShift + 8) & 1) != 0;
  for_lanes(mask, [&](uint32_t lane) {
    const auto a = get<uint32_t>(warp[in.reg[1]], lane);
    const auto b = get<uint32_t>(warp[in.reg[2]], lane);
    uint32_t result = 0;
    for (const int shift : {0, 16}) {
      const bool yes = compares(compare, unordered, decode(kFormat, a >> shift), decode(kFormat, b >> shift));
      result |= yes ? static_cast<uint32_t>(in.offset & 0xffff) << shift : 0;
    }
    put(warp[in.reg[0]], lane, result);
  });
}

// The value of a true result: 1 for `setp`, 1.0 or all bits for `set`.
uint64_t true_of(Type given) {
  if (!given.is_float()) {
    return given.bits == 1 ? 1 : 0xffffffff;
  }
  return given == Type{TypeKind::kFloat, 32} ? std::bit_cast<uint32_t>(1.0F)
         : given.kind == TypeKind::kBfloat   ? 0x3f80
                                             : 0x3c00;
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
  const bool sets = at.opcode() == "set";
  const Type given = sets ? at.take_type() : Type{TypeKind::kPredicate, 1};
  const Type type = at.take_type();
  const bool pair = type.kind == TypeKind::kHalves || type == Type{TypeKind::kBfloat, 32};
  if (sets && (given.bits < 16 || given.bits > 32)) {
    at.fail("the result of `set` has 16 or 32 bits");
  }
  at.expect_operands(joins ? 4 : 3, joins ? 4 : 3);
  const Operand& result = at.operand(0);
  const Type predicate{TypeKind::kPredicate, 1};
  if (result.kind == Operand::Kind::kPair && !sets) {
    at.destination(result.parts[0], predicate);
    at.destination(result.parts[1], predicate);
  } else {
    at.destination(result, given);
  }
  at.source(1, type);
  at.source(2, type);
  if (joins) {
    at.source(3, predicate);
  }
  at.in.extra = (flush ? kFlush : 0) | (joins_and ? kAnd : 0) | (joins_or ? kOr : 0) | (joins_xor ? kXor : 0) |
                (at.operand(3).negated ? kNotThird : 0) | static_cast<uint64_t>(compare->compare) << kCompareShift |
                (compare->unordered ? uint64_t{1} << (kCompareShift + 8) : 0);
  at.in.offset = true_of(given);
  if (type.kind == TypeKind::kBfloat) {
    at.need_target(90);
    if (flush) {
      at.fail("bf16 has no `.ftz`");
    }
  }
  if (pair) {
    if (!sets || joins || flush || given.bits != 32) {
      at.fail("pairs are compared only by a plain `set`");
    }
    at.in.run = type.kind == TypeKind::kBfloat ? run_set_pair<kBf16Format> : run_set_pair<kF16Format>;
    return;
  }
  if (type.kind == TypeKind::kFloat && type.bits >= 32) {
    at.in.run = type.bits == 32 ? run_setp<Plain<float>> : run_setp<Plain<double>>;
    return;
  }
  if (type.is_float() && type.bits == 16) {
    at.in.run = type.kind == TypeKind::kBfloat ? run_setp<Narrow<kBf16Format>> : run_setp<Narrow<kF16Format>>;
    return;
  }
  const std::string_view name = compare->name;
  const bool unsigned_name = name == "lo" || name == "ls" || name == "hi" || name == "hs";
  const bool only_equal = type.kind == TypeKind::kBits && name != "eq" && name != "ne";
  if (type.is_float() || type.bits < 16 || compare->unordered || name == "num" || only_equal) {
    at.fail("the type has no such comparison");
    return;
  }
  with_integer(type.bits, type.is_signed() && !unsigned_name,
               [&]<class T>(T /*type*/) { at.in.run = run_setp<Plain<T>>; });
}

void run_selp(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    const bool first = get<uint8_t>(warp[in.reg[3]], lane) != 0;
    warp[in.reg[0]].lane[lane] = warp[in.reg[first ? 1 : 2]].lane[lane];
  });
}

}  // namespace

bool decode_comparisons(Decoder& at) {
  if (at.opcode() == "setp" || at.opcode() == "set") {
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
