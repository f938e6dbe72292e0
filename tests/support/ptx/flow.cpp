// Branches, ends and barriers.
// Tests: tests/ptx/barriers_test.cpp
#include "tests/support/ptx/block.h"
#include "tests/support/ptx/groups.h"
#include "tests/support/ptx/lanewise.h"

namespace xrun::ptx {

namespace {

// bar.warp.sync orders the accesses of its lanes.
void run_warp_barrier(Warp& warp, const Instruction& /*in*/, uint32_t mask) {
  std::array<uint32_t, kLanes> threads{};
  size_t count = 0;
  for_lanes(mask, [&](uint32_t lane) { threads[count++] = warp.thread(lane); });
  warp.block().clocks().join(std::span(threads).first(count));
}

void run_trap(Warp& warp, const Instruction& /*in*/, uint32_t mask) {
  warp.fail(FaultKind::kArithmetic, static_cast<uint32_t>(std::countr_zero(mask)), "the kernel gave up with `trap`");
}

void decode_barrier(Decoder& at) {
  // `bar` is `barrier` with `.aligned`.
  const bool aligned = at.take("aligned") || at.opcode() == "bar";
  at.take("cta");
  if (at.take("warp")) {
    if (!at.take("sync")) {
      at.fail("only `.sync` is executed");
    }
    at.expect_operands(1, 1);
    at.source(0, {TypeKind::kBits, 32});
    at.in.flow = Flow::kConverge;
    at.in.run = run_warp_barrier;
    return;
  }
  if (!at.take("sync")) {
    at.fail("only barriers with `.sync` are executed", "the machine has no `.arrive` and no `.red`");
  }
  at.expect_operands(1, 2);
  at.source(0, {TypeKind::kBits, 32});
  if (at.operands() == 2) {
    at.source(1, {TypeKind::kBits, 32});
  }
  at.in.flow = Flow::kBarrier;
  at.in.whole_warp = aligned;
}

}  // namespace

bool decode_flow(Decoder& at) {
  const std::string_view name = at.opcode();
  if (name == "bra") {
    at.take("uni");
    at.expect_operands(1, 1);
    at.in.flow = Flow::kBranch;
    at.in.target = at.label(0);
  } else if (name == "ret" || name == "exit") {
    at.take("uni");
    at.expect_operands(0, 0);
    at.in.flow = Flow::kExit;
  } else if (name == "bar" || name == "barrier") {
    decode_barrier(at);
  } else if (name == "trap") {
    at.in.run = run_trap;
  } else {
    return false;
  }
  return true;
}

}  // namespace xrun::ptx
