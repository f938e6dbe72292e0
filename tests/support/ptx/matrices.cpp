// ldmatrix and mma.sync of bf16. Lane l holds, of an 8 x 8 matrix, the elements 2 (l % 4) and 2 (l % 4) + 1 of row l
// / 4. Tests: tests/ptx/matrices_test.cpp
#include <vector>

#include "tests/support/ptx/block.h"
#include "tests/support/ptx/groups.h"
#include "tests/support/ptx/lanewise.h"
#include "tests/support/ptx/mma_model.h"

namespace xrun::ptx {

namespace {

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

// d [16, 8] = a [16, k] * b [k, 8] + c [16, 8] with k = `extra`. Registers: d0 to d3, k / 4 of a, k / 8 of b, c0 to c3.
void run_mma(Warp& warp, const Instruction& in, uint32_t /*mask*/) {
  const size_t depth = in.extra;
  const TensorCore core = tensor_core(warp.block().options().generation);
  std::array<std::array<Term, 16>, 16> a;  // [row, k]
  std::array<std::array<Term, 16>, 8> b;   // [column, k]
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint32_t group = lane / 4;
    const uint32_t pair = 2 * (lane % 4);
    for (size_t i = 0; i < depth / 4; ++i) {
      const auto word = get<uint32_t>(warp[in.reg[4 + i]], lane);
      const size_t row = group + 8 * (i % 2);
      const size_t k = pair + 8 * (i / 2);
      a[row][k] = term_of_bfloat(static_cast<uint16_t>(word));
      a[row][k + 1] = term_of_bfloat(static_cast<uint16_t>(word >> 16));
    }
    for (size_t i = 0; i < depth / 8; ++i) {
      const auto word = get<uint32_t>(warp[in.reg[4 + depth / 4 + i]], lane);
      b[group][pair + 8 * i] = term_of_bfloat(static_cast<uint16_t>(word));
      b[group][pair + 8 * i + 1] = term_of_bfloat(static_cast<uint16_t>(word >> 16));
    }
  }
  const size_t addends = 4 + depth / 4 + depth / 8;
  std::array<std::array<float, kLanes>, 4> results;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (size_t i = 0; i < 4; ++i) {
      const size_t row = lane / 4 + 8 * (i / 2);
      const size_t column = 2 * (lane % 4) + i % 2;
      results[i][lane] =
          sum_of_products(core, std::span<const Term>(a[row]).first(depth),
                          std::span<const Term>(b[column]).first(depth), get<float>(warp[in.reg[addends + i]], lane));
    }
  }
  for (size_t i = 0; i < 4; ++i) {
    for_lanes(kAllLanes, [&](uint32_t lane) { put(warp[in.reg[i]], lane, results[i][lane]); });
  }
}

// The registers in braces, or a single one.
std::vector<Operand> parts_of(const Operand& operand) {
  return operand.kind == Operand::Kind::kVector ? operand.parts : std::vector<Operand>{operand};
}

void decode_ldmatrix(Decoder& at) {
  const size_t matrices = at.take("x1") ? 1 : at.take("x2") ? 2 : at.take("x4") ? 4 : 0;
  at.in.extra = at.take("trans") ? 1 : 0;
  at.take_type();
  if (matrices == 0 || !at.take("m8n8") || at.take_space() != Space::kShared) {
    at.fail("only `.m8n8` matrices of 16 bits in shared memory are loaded");
  }
  const std::vector<Operand> results = parts_of(at.operand(0));
  if (results.size() != matrices) {
    at.fail("the registers do not fit to the matrices");
    return;
  }
  for (const Operand& result : results) {
    at.destination(result, {TypeKind::kBits, 32});
  }
  at.address(1, Space::kShared);
  at.in.run = run_ldmatrix;
}

void decode_mma(Decoder& at) {
  const bool deep = at.take("m16n8k16");
  const bool layout = (deep || at.take("m16n8k8")) && at.take("row") && at.take("col");
  const Type single{TypeKind::kFloat, 32};
  const Type bfloat{TypeKind::kBfloat, 16};
  const std::array<Type, 4> types{at.take_type(), at.take_type(), at.take_type(), at.take_type()};
  if (!layout || types != std::array<Type, 4>{single, bfloat, bfloat, single}) {
    at.fail("only `.m16n8k16` and `.m16n8k8` with `.row.col.f32.bf16.bf16.f32` are executed");
    return;
  }
  const size_t depth = deep ? 16 : 8;
  const std::array<size_t, 4> counts{4, depth / 4, depth / 8, 4};
  at.in.extra = depth;
  for (size_t i = 0; i < 4; ++i) {
    const std::vector<Operand> parts = parts_of(at.operand(i));
    if (parts.size() != counts[i]) {
      at.fail("the registers do not fit to the matrices");
      return;
    }
    for (const Operand& part : parts) {
      const Type type = i == 0 || i == 3 ? single : Type{TypeKind::kBits, 32};
      i == 0 ? at.destination(part, type) : at.source(part, type);
    }
  }
  at.in.run = run_mma;
}

}  // namespace

bool decode_matrices(Decoder& at) {
  const bool loads = at.opcode() == "ldmatrix";
  if (!loads && at.opcode() != "mma") {
    return false;
  }
  if (!at.take("sync") || !at.take("aligned")) {
    at.fail("`.sync.aligned` is missing");
  }
  at.in.flow = Flow::kConverge;
  at.in.whole_warp = true;
  loads ? decode_ldmatrix(at) : decode_mma(at);
  return true;
}

}  // namespace xrun::ptx
