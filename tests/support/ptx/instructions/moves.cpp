// Moves, also from and into the parts of a register, and conversions of addresses.
// Tests: tests/ptx/integers_test.cpp
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

void run_move(Warp& warp, const Instruction& in, uint32_t mask) {
  const Register& from = warp[in.reg[1]];
  Register& to = warp[in.reg[0]];
  for_lanes(mask, [&](uint32_t lane) { to.lane[lane] = from.lane[lane]; });
}

// `mov.b64 %rd1, {%r1, %r2}`; `extra` is the width of a part.
void run_pack(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t kept = ~uint64_t{0} >> (64 - in.extra);
  for_lanes(mask, [&](uint32_t lane) {
    uint64_t value = 0;
    for (size_t i = 0; i < in.sources; ++i) {
      value |= (warp[in.reg[1 + i]].lane[lane] & kept) << (i * in.extra);
    }
    warp[in.reg[0]].lane[lane] = value;
  });
}

// `mov.b64 {%r1, %r2}, %rd1`.
void run_unpack(Warp& warp, const Instruction& in, uint32_t mask) {
  const uint64_t kept = ~uint64_t{0} >> (64 - in.extra);
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t value = warp[in.reg[in.destinations]].lane[lane];
    for (size_t i = 0; i < in.destinations; ++i) {
      warp[in.reg[i]].lane[lane] = value >> (i * in.extra) & kept;
    }
  });
}

void decode_parts(Decoder& at, Type type, const Operand& vector, bool packs) {
  const auto count = static_cast<int>(vector.parts.size());
  if ((count != 2 && count != 4) || type.bits / count < 8) {
    at.fail("a register has two or four parts");
    return;
  }
  const Type part{TypeKind::kBits, type.bits / count};
  at.in.extra = static_cast<uint64_t>(part.bits);
  if (packs) {
    at.destination(0, type);
    for (const Operand& piece : vector.parts) {
      at.source(piece, part);
    }
    at.in.run = run_pack;
  } else {
    for (const Operand& piece : vector.parts) {
      at.destination(piece, part);
    }
    at.source(1, type);
    at.in.run = run_unpack;
  }
}

Space space_of(uint64_t address) {
  return address >= kSharedBase                           ? Space::kShared
         : address >= kParamBase                          ? Space::kParam
         : address >= kLocalBase && address < kModuleBase ? Space::kLocal
                                                          : Space::kGlobal;
}

// `extra` is added to the address: the distance between the ranges of a space and of generic addresses.
void run_address(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) { warp[in.reg[0]].lane[lane] = warp[in.reg[1]].lane[lane] + in.extra; });
}

void decode_address(Decoder& at) {
  const bool from_generic = at.take("to");
  const Space space = at.take_space();
  const Type type = at.take_type();
  at.destination(0, type);
  at.source(1, type);
  if (space == Space::kShared) {
    at.in.extra = from_generic ? uint64_t{0} - kSharedBase : kSharedBase;
  } else if (space == Space::kGeneric) {
    at.fail("the state space is missing");
  }
  at.in.run = run_address;
}

// `extra` is the state space.
void run_is_space(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto space = static_cast<Space>(in.extra);
  for_lanes(mask,
            [&](uint32_t lane) { put(warp[in.reg[0]], lane, uint8_t{space_of(warp[in.reg[1]].lane[lane]) == space}); });
}

void decode_is_space(Decoder& at) {
  const Space space = at.take_space();
  if (space == Space::kGeneric || space == Space::kConst) {
    at.fail("only `.global`, `.shared`, `.local` and `.param` can be tested");
  }
  at.expect_operands(2, 2);
  at.destination(0, {TypeKind::kPredicate, 1});
  at.source(1, {TypeKind::kBits, 64});
  at.in.extra = static_cast<uint64_t>(space);
  at.in.run = run_is_space;
}

}  // namespace

bool decode_moves(Decoder& at) {
  if (at.opcode() == "isspacep") {
    decode_is_space(at);
    return true;
  }
  if (at.opcode() == "cvta") {
    decode_address(at);
    return true;
  }
  if (at.opcode() != "mov") {
    return false;
  }
  const Type type = at.take_type();
  at.expect_operands(2, 2);
  if (at.operand(1).kind == Operand::Kind::kVector) {
    decode_parts(at, type, at.operand(1), true);
  } else if (at.operand(0).kind == Operand::Kind::kVector) {
    decode_parts(at, type, at.operand(0), false);
  } else {
    at.destination(0, type);
    at.source(1, type);
    at.in.run = run_move;
  }
  return true;
}

}  // namespace xrun::ptx
