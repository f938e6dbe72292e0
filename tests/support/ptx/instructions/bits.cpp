// Logic, shifts, fields of bits, permutations of bytes and counts of bits.
// Tests: tests/ptx/integers_test.cpp
#include <algorithm>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

// The bit of a table at the index that each bit of three words gives.
void run_lop3(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) {
    const auto a = get<uint32_t>(warp[in.reg[1]], lane);
    const auto b = get<uint32_t>(warp[in.reg[2]], lane);
    const auto c = get<uint32_t>(warp[in.reg[3]], lane);
    uint32_t result = 0;
    for (uint32_t row = 0; row < 8; ++row) {
      if ((in.extra >> row & 1) != 0) {
        result |= ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
      }
    }
    put(warp[in.reg[0]], lane, result);
  });
}

// Each nibble of the selector picks one of eight bytes; its top bit repeats the byte's sign.
uint32_t permute(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = uint64_t{b} << 32 | a;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t pick = selector >> (4 * i) & 0xf;
    uint32_t byte = static_cast<uint32_t>(bytes >> (8 * (pick & 7))) & 0xff;
    if ((pick & 8) != 0) {
      byte = (byte & 0x80) != 0 ? 0xff : 0;
    }
    result |= byte << (8 * i);
  }
  return result;
}

template <class T>
T extract(T a, uint32_t position, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  position &= 0xff;
  length &= 0xff;
  using U = std::make_unsigned_t<T>;
  const auto bits = static_cast<U>(a);
  const U field = position < kBits ? static_cast<U>(bits >> position) : U{0};
  const U kept = length >= kBits ? ~U{0} : static_cast<U>((U{1} << length) - 1);
  // For signed types the sign of the field, or of the whole number if the field reaches beyond it, is repeated.
  const uint32_t last = std::min(position + (length == 0 ? 0 : length - 1), kBits - 1);
  const bool sign = std::is_signed_v<T> && length != 0 && (bits >> last & 1) != 0;
  if (!sign) {
    return static_cast<T>(field & kept);
  }
  const uint32_t present = last + 1 > position ? last + 1 - position : 0;
  const U ones = present >= kBits ? U{0} : static_cast<U>(~U{0} << present);
  return static_cast<T>((field & kept) | ones);
}

template <class T>
T insert(T from, T into, uint32_t position, uint32_t length) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  position &= 0xff;
  length &= 0xff;
  if (length == 0 || position >= kBits) {
    return into;
  }
  const T kept = length >= kBits ? ~T{0} : static_cast<T>((T{1} << length) - 1);
  const T place = static_cast<T>(kept << position);
  return static_cast<T>((into & ~place) | ((from << position) & place));
}

// bfe and bfi: position and length are always `.u32`.
template <class T>
void decode_field(Decoder& at, Type type, bool inserts) {
  at.destination(0, type);
  at.source(1, type);
  if (inserts) {
    at.source(2, type);
  }
  at.source(inserts ? 3 : 2, {TypeKind::kUnsigned, 32});
  at.source(inserts ? 4 : 3, {TypeKind::kUnsigned, 32});
  at.in.run = [](Warp& warp, const Instruction& in, uint32_t mask) {
    for_lanes(mask, [&](uint32_t lane) {
      const auto word = [&](size_t place) { return get<uint32_t>(warp[in.reg[place]], lane); };
      const T first = get<T>(warp[in.reg[1]], lane);
      if (in.sources == 4) {
        using U = std::make_unsigned_t<T>;
        put(warp[in.reg[0]], lane, insert<U>(static_cast<U>(first), get<U>(warp[in.reg[2]], lane), word(3), word(4)));
      } else {
        put(warp[in.reg[0]], lane, extract<T>(first, word(2), word(3)));
      }
    });
  };
}

// Shifts; amounts above the width act as the width.
template <class T, bool kLeft>
void run_shift(Warp& warp, const Instruction& in, uint32_t mask) {
  constexpr uint32_t kBits = 8 * sizeof(T);
  for_lanes(mask, [&](uint32_t lane) {
    const T value = get<T>(warp[in.reg[1]], lane);
    const uint32_t amount = get<uint32_t>(warp[in.reg[2]], lane);
    const bool all = amount >= kBits;
    if (kLeft) {
      put(warp[in.reg[0]], lane, all ? T{0} : static_cast<T>(static_cast<uint64_t>(value) << amount));
    } else {
      put(warp[in.reg[0]], lane, static_cast<T>(value >> (all ? kBits - 1 : amount) >> (all ? 1 : 0)));
    }
  });
}

void decode_funnel(Decoder& at) {
  const bool left = at.take("l") || !at.take("r");
  const bool wraps = at.take("wrap") || !at.take("clamp");
  const Type type = at.take_type();
  at.destination(0, type);
  for (size_t i = 1; i <= 3; ++i) {
    at.source(i, type);
  }
  at.in.extra = (left ? 1U : 0U) | (wraps ? 2U : 0U);
  at.in.run = [](Warp& warp, const Instruction& in, uint32_t mask) {
    for_lanes(mask, [&](uint32_t lane) {
      const uint64_t both = uint64_t{get<uint32_t>(warp[in.reg[2]], lane)} << 32 | get<uint32_t>(warp[in.reg[1]], lane);
      const auto amount = get<uint32_t>(warp[in.reg[3]], lane);
      const uint32_t by = (in.extra & 2) != 0 ? amount & 31 : std::min<uint32_t>(amount, 32);
      put(warp[in.reg[0]], lane, static_cast<uint32_t>((in.extra & 1) != 0 ? both << by >> 32 : both >> by));
    });
  };
}

template <class T>
Handler logic(std::string_view name, bool predicate) {
  if (name == "and") {
    return lanewise<T>([](T a, T b) { return static_cast<T>(a & b); });
  }
  if (name == "or") {
    return lanewise<T>([](T a, T b) { return static_cast<T>(a | b); });
  }
  if (name == "xor") {
    return lanewise<T>([](T a, T b) { return static_cast<T>(a ^ b); });
  }
  if (name == "cnot" || predicate) {
    return lanewise<T>([](T a) { return static_cast<T>(a == 0 ? 1 : 0); });
  }
  return lanewise<T>([](T a) { return static_cast<T>(~a); });
}

void decode_logic(Decoder& at, std::string_view name) {
  const Type type = at.take_type();
  const bool single = name == "not" || name == "cnot";
  at.expect_operands(single ? 2 : 3, single ? 2 : 3);
  at.destination(0, type);
  at.source(1, type);
  if (!single) {
    at.source(2, type);
  }
  const bool predicate = type.kind == TypeKind::kPredicate;
  with_integer(predicate ? 8 : type.bits, false, [&]<class T>(T /*type*/) { at.in.run = logic<T>(name, predicate); });
}

void decode_shift(Decoder& at, bool left) {
  const Type type = at.take_type();
  at.expect_operands(3, 3);
  at.destination(0, type);
  at.source(1, type);
  at.source(2, {TypeKind::kUnsigned, 32});
  with_integer(type.bits, type.is_signed(),
               [&]<class T>(T /*type*/) { at.in.run = left ? run_shift<T, true> : run_shift<T, false>; });
}

// The index of the highest bit that is set, or 2^32 - 1, and the shift that moves it to the top.
template <class T>
uint32_t last_bit(T a) {
  return static_cast<uint32_t>(std::bit_width(a)) - 1;
}
template <class T>
uint32_t shift_of(T a) {
  return a == 0 ? ~0U : static_cast<uint32_t>(std::countl_zero(a));
}

// Counts: the result has 32 bits.
void decode_count(Decoder& at, std::string_view name) {
  const bool shift = name == "bfind" && at.take("shiftamt");
  const Type type = at.take_type();
  at.expect_operands(2, 2);
  at.destination(0, name == "brev" ? type : Type{TypeKind::kUnsigned, 32});
  at.source(1, type);
  with_integer(type.bits, type.is_signed(), [&]<class Any>(Any /*type*/) {
    using T = std::make_unsigned_t<Any>;
    if (name == "popc") {
      at.in.run = lanewise<T>([](T a) { return static_cast<uint32_t>(std::popcount(a)); });
    } else if (name == "clz") {
      at.in.run = lanewise<T>([](T a) { return static_cast<uint32_t>(std::countl_zero(a)); });
    } else if (name == "brev") {
      at.in.run = lanewise<T>([](T a) {
        T result = 0;
        for (size_t i = 0; i < 8 * sizeof(T); ++i) {
          result = static_cast<T>(result << 1 | (a >> i & 1));
        }
        return result;
      });
    } else if (type.is_signed()) {  // the first bit that differs from the sign
      at.in.run = lanewise<Any>([](Any a) { return last_bit(static_cast<T>(a < 0 ? ~a : a)); });
      at.in.run = shift ? lanewise<Any>([](Any a) { return shift_of(static_cast<T>(a < 0 ? ~a : a)); }) : at.in.run;
    } else {
      at.in.run = shift ? lanewise<T>([](T a) { return shift_of(a); }) : lanewise<T>([](T a) { return last_bit(a); });
    }
  });
}

}  // namespace

bool decode_bits(Decoder& at) {
  const std::string_view name = at.opcode();
  if (name == "and" || name == "or" || name == "xor" || name == "not" || name == "cnot") {
    decode_logic(at, name);
  } else if (name == "shl" || name == "shr") {
    decode_shift(at, name == "shl");
  } else if (name == "shf") {
    decode_funnel(at);
  } else if (name == "popc" || name == "clz" || name == "brev" || name == "bfind") {
    decode_count(at, name);
  } else if (name == "bfe" || name == "bfi") {
    const Type type = at.take_type();
    if (type.bits < 32) {
      at.fail("fields are parts of 32 or 64 bits");
      return true;
    }
    with_integer(type.bits, type.is_signed(), [&]<class T>(T /*type*/) {
      if constexpr (sizeof(T) >= 4) {
        decode_field<T>(at, type, name == "bfi");
      }
    });
  } else if (name == "prmt" || name == "lop3") {
    const Type type = at.take_type();
    at.expect_operands(name == "prmt" ? 4 : 5, name == "prmt" ? 4 : 5);
    at.destination(0, type);
    for (size_t i = 1; i <= 3; ++i) {
      at.source(i, type);
    }
    if (name == "lop3") {
      at.in.extra = at.constant(4);
      at.in.run = run_lop3;
    } else {
      at.in.run = lanewise<uint32_t>([](uint32_t a, uint32_t b, uint32_t c) { return permute(a, b, c); });
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace xrun::ptx
