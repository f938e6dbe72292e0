// Loads and stores of all state spaces, also of vectors.
// Tests: tests/ptx/memory_test.cpp
#include "tests/support/ptx/block.h"
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

// Instruction::extra: bytes of an element, whether it is signed, the state space, the strength.
uint64_t pack(Type type, Space space, Strength strength) {
  return static_cast<uint64_t>(type.bits / 8) | (type.is_signed() ? 1U << 8 : 0U) | static_cast<uint64_t>(space) << 16 |
         static_cast<uint64_t>(strength) << 24;
}
Space space_of(const Instruction& in) { return static_cast<Space>(in.extra >> 16 & 0xff); }
Strength strength_of(const Instruction& in) { return static_cast<Strength>(in.extra >> 24 & 0xff); }
constexpr uint64_t kFenced = uint64_t{1} << 32;  // `.acquire` or `.release`

// The fence of `.acquire` after a load, or of `.release` before a store.
void fence(Warp& warp, const Instruction& in, uint32_t lane) {
  if ((in.extra & kFenced) != 0) {
    warp.block().clocks().fence(warp.thread(lane), strength_of(in) == Strength::kBlock);
  }
}

uint64_t sign_extended(uint64_t value, uint32_t bytes) {
  const uint32_t shift = 64 - 8 * bytes;
  return static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
}

void run_load(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto bytes = static_cast<uint32_t>(in.extra & 0xff);
  const bool is_signed = (in.extra >> 8 & 1) != 0;
  const Register& base = warp[in.reg[in.destinations]];
  const Space space = space_of(in);
  for_lanes(mask, [&](uint32_t lane) {
    std::array<std::byte, 32> data;
    if (!warp.load(lane, base.lane[lane] + in.offset, std::span(data).first(bytes * in.destinations), space,
                   strength_of(in))) {
      return;
    }
    fence(warp, in, lane);
    for (uint32_t i = 0; i < in.destinations; ++i) {
      uint64_t value = 0;
      std::memcpy(&value, data.data() + i * bytes, bytes);
      warp[in.reg[i]].lane[lane] = is_signed ? sign_extended(value, bytes) : value;
    }
  });
}

void run_store(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto bytes = static_cast<uint32_t>(in.extra & 0xff);
  for_lanes(mask, [&](uint32_t lane) {
    std::array<std::byte, 32> data;
    for (uint32_t i = 0; i + 1 < in.sources; ++i) {
      std::memcpy(data.data() + i * bytes, &warp[in.reg[1 + i]].lane[lane], bytes);
    }
    fence(warp, in, lane);
    warp.store(lane, warp[in.reg[0]].lane[lane] + in.offset, std::span(data).first(bytes * (in.sources - 1U)),
               space_of(in), strength_of(in));
  });
}

Strength take_strength(Decoder& at, bool& fenced) {
  if (at.take("volatile")) {
    return Strength::kDevice;
  }
  fenced = at.take(at.opcode() == "st" ? "release" : "acquire");
  if (!fenced && !at.take("relaxed")) {
    at.take("weak");
    return Strength::kPlain;
  }
  return at.take_block_scope() ? Strength::kBlock : Strength::kDevice;
}

// A prefetch changes no value, and its address need not be valid.
void run_prefetch(Warp& /*warp*/, const Instruction& /*in*/, uint32_t /*mask*/) {}

void decode_prefetch(Decoder& at) {
  const Space space = at.take_space();
  if (space == Space::kShared || (!at.take("L1") && !at.take("L2"))) {
    at.fail("a prefetch names global or local memory and a cache");
  }
  at.expect_operands(1, 1);
  at.address(0, space);
  at.in.run = run_prefetch;
}

}  // namespace

bool decode_accesses(Decoder& at) {
  if (at.opcode() == "prefetch" || at.opcode() == "prefetchu") {
    decode_prefetch(at);
    return true;
  }
  const bool loads = at.opcode() == "ld" || at.opcode() == "ldu";
  if (!loads && at.opcode() != "st") {
    return false;
  }
  bool fenced = false;
  const Strength strength = take_strength(at, fenced);
  const Space space = at.take_space();
  at.take("nc");
  // Hints for the caches do not change values.
  for (const std::string_view hint : {"ca", "cg", "cs", "cv", "lu", "wb", "wt", "L1::evict_last", "L1::no_allocate",
                                      "L1::evict_first", "L1::evict_normal", "L2::64B", "L2::128B", "L2::256B"}) {
    at.take(hint);
  }
  const size_t elements = at.take("v2") ? 2 : at.take("v4") ? 4 : 1;
  const Type type = at.take_type();
  at.expect_operands(2, 2);
  const Operand& value = at.operand(loads ? 0 : 1);
  const bool vector = value.kind == Operand::Kind::kVector;
  if ((vector ? value.parts.size() : 1) != elements || type.bits < 8) {
    at.fail("the number of registers does not match the vector");
    return true;
  }
  const auto each = [&](const auto& use) {
    for (size_t i = 0; i < elements; ++i) {
      use(vector ? value.parts[i] : value);
    }
  };
  at.in.extra = pack(type, space, strength) | (fenced ? kFenced : 0);
  const Type bits{TypeKind::kBits, type.bits};
  if (loads) {
    each([&](const Operand& part) { at.destination(part, bits, false); });
    at.address(1, space);
    at.in.run = run_load;
  } else {
    at.address(0, space);
    each([&](const Operand& part) { at.source(part, part.kind == Operand::Kind::kFloat ? type : bits, false); });
    at.in.run = run_store;
    if (space == Space::kConst || space == Space::kParam) {
      at.fail("parameters and constants cannot be written");
    }
  }
  return true;
}

}  // namespace xrun::ptx
