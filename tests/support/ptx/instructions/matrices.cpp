// Matrices of 16 bits between shared memory and registers. Lane l holds, of an 8 x 8 matrix, the elements 2 (l % 4) and
// 2 (l % 4) + 1 of row l / 4.
// Tests: tests/ptx/matrices_test.cpp
#include <vector>

#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

constexpr Type kWord{TypeKind::kBits, 32};

// Lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
void run_ldmatrix(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const size_t matrices = in.destinations;
  const bool transposed = in.extra != 0;
  std::array<std::array<uint16_t, 8>, kLanes> rows{};
  for (uint32_t lane = 0; lane < 8 * matrices; ++lane) {
    const uint64_t address = warp[in.reg[in.destinations]].lane[lane] + in.offset;
    if (!warp.load(lane, address, std::as_writable_bytes(std::span(rows[lane])), Space::kShared, Strength::kPlain)) {
      return;
    }
  }
  for (uint32_t i = 0; i < matrices; ++i) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const uint32_t row = lane / 4;
      const uint32_t column = 2 * (lane % 4);
      const auto element = [&](uint32_t r, uint32_t c) -> uint32_t {
        return transposed ? rows[8 * i + c][r] : rows[8 * i + r][c];
      };
      put(warp[in.reg[i]], lane, element(row, column) | element(row, column + 1) << 16);
    }
  }
}

// The inverse of ldmatrix: lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i.
void run_stmatrix(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const uint32_t matrices = in.sources - 1U;
  const bool transposed = in.extra != 0;
  for (uint32_t lane = 0; lane < 8 * matrices; ++lane) {
    const Register& parts = warp[in.reg[1 + lane / 8]];
    std::array<uint16_t, 8> row{};
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t r = transposed ? i : lane % 8;
      const uint32_t c = transposed ? lane % 8 : i;
      row[i] = static_cast<uint16_t>(get<uint32_t>(parts, 4 * r + c / 2) >> (16 * (c % 2)));
    }
    if (!warp.store(lane, warp[in.reg[0]].lane[lane] + in.offset, std::as_bytes(std::span(row)), Space::kShared,
                    Strength::kPlain)) {
      return;
    }
  }
}

// Transposes a matrix in registers.
void run_movmatrix(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const Register from = warp[in.reg[1]];  // a copy: the result may be the same register
  const auto element = [&](uint32_t r, uint32_t c) {
    return get<uint32_t>(from, 4 * r + c / 2) >> (16 * (c % 2)) & 0xffff;
  };
  for_lanes(kAllLanes, [&](uint32_t lane) {
    const uint32_t row = lane / 4;
    const uint32_t column = 2 * (lane % 4);
    put(warp[in.reg[0]], lane, element(column, row) | element(column + 1, row) << 16);
  });
}

// The registers in braces, or a single one.
std::vector<Operand> parts_of(const Operand& operand) {
  return operand.kind == Operand::Kind::kVector ? operand.parts : std::vector<Operand>{operand};
}

void decode_rows(Decoder& at, bool loads) {
  const size_t matrices = at.take("x1") ? 1 : at.take("x2") ? 2 : at.take("x4") ? 4 : 0;
  at.in.extra = at.take("trans") ? 1 : 0;
  if (at.take_type().bits != 16 || matrices == 0 || !at.take("m8n8") || at.take_space() != Space::kShared) {
    at.fail("only `.m8n8` matrices of 16 bits in shared memory are executed");
  }
  const std::vector<Operand> parts = parts_of(at.operand(loads ? 0 : 1));
  at.expect_operands(2, 2);
  if (parts.size() != matrices) {
    at.fail("the number of registers does not match the matrices");
    return;
  }
  if (!loads) {
    at.need_target(90);
    at.address(0, Space::kShared);
  }
  for (const Operand& part : parts) {
    loads ? at.destination(part, kWord) : at.source(part, kWord);
  }
  if (loads) {
    at.address(1, Space::kShared);
  }
  at.in.run = loads ? run_ldmatrix : run_stmatrix;
}

void decode_transposition(Decoder& at) {
  if (!at.take("m8n8") || !at.take("trans") || at.take_type().bits != 16) {
    at.fail("only `.m8n8.trans` matrices of 16 bits are executed");
  }
  at.expect_operands(2, 2);
  at.destination(0, kWord);
  at.source(1, kWord);
  at.in.run = run_movmatrix;
}

}  // namespace

bool decode_matrices(Decoder& at) {
  const std::string_view name = at.opcode();
  if (name != "ldmatrix" && name != "stmatrix" && name != "movmatrix") {
    return false;
  }
  if (!at.take("sync") || !at.take("aligned")) {
    at.fail("`.sync.aligned` is missing");
  }
  at.in.flow = Flow::kConverge;
  at.in.whole_warp = true;
  name == "movmatrix" ? decode_transposition(at) : decode_rows(at, name == "ldmatrix");
  return true;
}

}  // namespace xrun::ptx
