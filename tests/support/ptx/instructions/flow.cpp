// Branches, ends and barriers.
// Tests: tests/ptx/barriers_test.cpp
#include "tests/support/ptx/block.h"
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

// bar.warp.sync orders the accesses of its lanes.
void run_warp_barrier(Warp& warp, const Instruction& /*in*/, uint32_t mask) {
  std::array<uint32_t, kLanes> threads{};
  size_t count = 0;
  for_lanes(mask, [&](uint32_t lane) { threads[count++] = warp.thread(lane); });
  warp.block().clocks().join(std::span(threads).first(count));
}

void run_trap(Warp& warp, const Instruction& in, uint32_t mask) {
  warp.fail(FaultKind::kArithmetic, static_cast<uint32_t>(std::countr_zero(mask)),
            in.extra != 0 ? "the kernel executed `brkpt`" : "the kernel executed `trap`");
}

void run_sleep(Warp& /*warp*/, const Instruction& /*in*/, uint32_t /*mask*/) {}

constexpr Type kWord{TypeKind::kBits, 32};
constexpr Type kPredicate{TypeKind::kPredicate, 1};

// `bar.red.popc.u32 %r1, 0, %p1` and `bar.red.and.pred %p2, 0, 64, !%p1`: the last source is the vote.
void decode_vote(Decoder& at) {
  const BarrierVote vote = at.take("popc")  ? BarrierVote::kCount
                           : at.take("and") ? BarrierVote::kAll
                                            : BarrierVote::kAny;
  if (vote == BarrierVote::kAny && !at.take("or")) {
    at.fail("the operation is missing");
  }
  const Type type = at.take_type();
  if (type.bits != (vote == BarrierVote::kCount ? 32 : 1)) {
    at.fail("the result has the wrong type");
  }
  at.expect_operands(3, 4);
  const size_t last = at.operands() - 1;
  at.destination(0, type);
  at.source(1, kWord);
  if (last == 3) {
    at.source(2, kWord);
  }
  at.source(last, kPredicate);
  at.in.extra =
      static_cast<uint64_t>(vote) | (last == 3 ? kBarrierCount : 0) | (at.operand(last).negated ? kBarrierNegated : 0);
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
    at.source(0, kWord);
    at.in.flow = Flow::kConverge;
    at.in.run = run_warp_barrier;
    return;
  }
  at.in.flow = Flow::kBarrier;
  at.in.whole_warp = aligned;
  if (at.take("red")) {
    decode_vote(at);
    return;
  }
  if (!at.take("sync")) {
    at.fail("only barriers with `.sync` and `.red` are executed", "the machine has no `.arrive`");
  }
  at.expect_operands(1, 2);
  at.source(0, kWord);
  if (at.operands() == 2) {
    at.source(1, kWord);
    at.in.extra = kBarrierCount;
  }
}

}  // namespace

bool decode_flow(Decoder& at) {
  const std::string_view name = at.opcode();
  if (name == "bra") {
    at.take("uni");
    at.expect_operands(1, 1);
    at.in.flow = Flow::kBranch;
    at.in.target = at.label(at.operand(0).name);
  } else if (name == "ret" || name == "exit") {
    at.take("uni");
    at.expect_operands(0, 0);
    at.in.flow = Flow::kExit;
  } else if (name == "bar" || name == "barrier") {
    decode_barrier(at);
  } else if (name == "trap" || name == "brkpt") {
    at.expect_operands(0, 0);
    at.in.extra = name == "brkpt" ? 1 : 0;
    at.in.run = run_trap;
  } else if (name == "nanosleep") {
    at.expect_operands(1, 1);
    at.source(0, at.take_type());
    at.in.run = run_sleep;
  } else if (name == "brx") {
    at.take("uni");
    if (!at.take("idx")) {
      at.fail("only `brx.idx` is executed");
    }
    at.expect_operands(2, 2);
    at.source(0, kWord);
    at.in.flow = Flow::kTable;
    at.in.target = at.table(1);
  } else {
    return false;
  }
  return true;
}

}  // namespace xrun::ptx
