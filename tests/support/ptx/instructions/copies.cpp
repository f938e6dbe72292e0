// cp.async: copies from global to shared memory that end when the thread waits for them.
// Tests: tests/ptx/copies_test.cpp
#include "tests/support/ptx/instructions/groups.h"
#include "tests/support/ptx/instructions/lanewise.h"

namespace xrun::ptx {

namespace {

// `extra` is the number of bytes of the copy. A third source gives the number of bytes that are read; the others become
// zero.
void run_copy(Warp& warp, const Instruction& in, uint32_t mask) {
  const auto bytes = static_cast<uint32_t>(in.extra & 0xff);
  const auto from_offset = static_cast<uint64_t>(static_cast<int64_t>(in.extra) >> 8);
  for_lanes(mask, [&](uint32_t lane) {
    const uint64_t to = warp[in.reg[0]].lane[lane] + in.offset;
    const uint64_t from = warp[in.reg[1]].lane[lane] + from_offset;
    const uint32_t read = in.sources == 3 ? get<uint32_t>(warp[in.reg[2]], lane) : bytes;
    if (read > bytes) {
      warp.fail(FaultKind::kArithmetic, lane, "the copy reads more bytes than it writes", from);
      return;
    }
    warp.begin_copy(lane, to, from, bytes, read);
  });
}

void run_commit(Warp& warp, const Instruction& /*in*/, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) { warp.commit_copies(lane); });
}

void run_wait(Warp& warp, const Instruction& in, uint32_t mask) {
  for_lanes(mask, [&](uint32_t lane) { warp.wait_copies(lane, in.offset, in.extra != 0); });
}

}  // namespace

bool decode_copies(Decoder& at) {
  if (at.opcode() != "cp") {
    return false;
  }
  if (!at.take("async")) {
    return false;
  }
  if (at.take("commit_group")) {
    at.expect_operands(0, 0);
    at.in.run = run_commit;
    return true;
  }
  const bool all = at.take("wait_all");
  if (all || at.take("wait_group")) {
    at.expect_operands(all ? 0 : 1, all ? 0 : 1);
    at.in.offset = all ? 0 : at.constant(0);
    at.in.extra = all ? 1 : 0;
    at.in.run = run_wait;
    return true;
  }
  const bool only_l2 = at.take("cg");
  if (!only_l2 && !at.take("ca")) {
    at.fail("this kind of asynchronous copy is not executed");
    return true;
  }
  for (const std::string_view hint : {"L2::64B", "L2::128B", "L2::256B"}) {
    at.take(hint);
  }
  if (at.take_space() != Space::kGlobal) {
    at.fail("a copy goes from global to shared memory");
  }
  if (at.take_space() != Space::kShared) {
    at.fail("a copy goes from global to shared memory");
  }
  at.expect_operands(3, 4);
  const uint64_t bytes = at.constant(2);
  if (bytes != 16 && (only_l2 || (bytes != 4 && bytes != 8))) {
    at.fail("a copy has 4, 8 or 16 bytes, and 16 with `.cg`");
  }
  at.address(0, Space::kShared);
  const uint64_t to_offset = at.in.offset;
  at.in.offset = 0;
  at.address(1, Space::kGlobal);
  at.in.extra = bytes | at.in.offset << 8;
  at.in.offset = to_offset;
  if (at.operands() == 4) {
    at.source(3, {TypeKind::kUnsigned, 32});
  }
  at.in.run = run_copy;
  return true;
}

}  // namespace xrun::ptx
