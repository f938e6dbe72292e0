// Accesses that barriers, fences and atomic operations order, and those that nothing orders.
#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

// %r0: thread, %r9: block, %d1: data, %d3: flag, %d2: data + 4 * thread.
constexpr const char* kHead =
    "mov.u32 %r0, %tid.x;\nmov.u32 %r9, %ctaid.x;\nld.param.u64 %d1, [p0];\nld.param.u64 %d3, [p1];\n"
    "mul.wide.u32 %d0, %r0, 4;\nadd.s64 %d2, %d1, %d0;\n";

Execution run(const std::string& lines, uint32_t threads, uint32_t blocks, Order order, uint64_t seed = kSeed) {
  const auto module = module_of(kernel_text(kHead + lines));
  if (module == nullptr) {
    return {};
  }
  Memory memory;
  const uint64_t data = add(memory, "data", std::vector<uint32_t>(256, 3));
  const uint64_t flag = add(memory, "flag", std::vector<uint32_t>(1));
  const Launch launch{.blocks = {blocks, 1, 1}, .threads = {threads, 1, 1}, .arguments = {data, flag, 0, 0}};
  return execute(*module, "test", launch, memory, {.order = order, .seed = seed});
}

void expect_race(const std::string& lines, uint32_t threads, uint32_t blocks = 1) {
  for (const Order order : kOrders) {
    const Execution done = run(lines, threads, blocks, order);
    ASSERT_TRUE(done.fault) << lines << "order " << static_cast<int>(order);
    EXPECT_EQ(done.fault->kind, FaultKind::kRace) << done.fault->print();
  }
}

void expect_ordered(const std::string& lines, uint32_t threads, uint32_t blocks = 1) {
  for (const Order order : kOrders) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Execution done = run(lines, threads, blocks, order, seed);
      EXPECT_FALSE(done.fault) << lines << done.fault->print() << ", seed " << seed;
    }
  }
}

TEST(Races, WritesOfTwoThreadsToOneWord) {
  expect_race("st.global.u32 [%d1], %r0;\n", 2);
  expect_race("st.global.u32 [%d1], 7;\n", 64);
  expect_race("st.global.u32 [%d1], 7;\n", 1, 2);
}

TEST(Races, AReadAndAWrite) {
  expect_race("setp.eq.s32 %p1, %r0, 0;\n@%p1 st.global.u32 [%d1], 1;\n@!%p1 ld.global.u32 %r1, [%d1];\n", 2);
  expect_race("setp.eq.s32 %p1, %r0, 40;\n@!%p1 ld.global.u32 %r1, [%d1];\n@%p1 st.global.u32 [%d1], 1;\n", 64);
  // The neighbour's word.
  expect_race("st.global.u32 [%d2], 1;\nld.global.u32 %r1, [%d2+4];\n", 40);
}

TEST(Races, NeighbouringBytesDoNotRace) {
  expect_ordered("cvt.u64.u32 %d4, %r0;\nadd.s64 %d5, %d1, %d4;\nst.global.u8 [%d5], 1;\nld.global.u8 %r1, [%d5];\n",
                 64);
  expect_ordered("ld.global.u32 %r1, [%d1];\n", 64, 3);
}

TEST(Races, ABarrierOrdersItsBlockOnly) {
  const std::string pass = "st.global.u32 [%d2], %r0;\nbar.sync 0;\nld.global.u32 %r1, [%d1+4];\n";
  expect_ordered(pass, 64);
  expect_race(pass, 64, 2);
  // A write after the read needs a second barrier.
  expect_race(pass + "st.global.u32 [%d2], 5;\n", 64);
  expect_ordered(pass + "bar.sync 0;\nst.global.u32 [%d2], 5;\n", 64);
}

// A barrier of two warps does not order the third.
TEST(Races, ABarrierOfSomeWarpsOrdersThoseWarps) {
  const std::string begin =
      "setp.lt.u32 %p1, %r0, 64;\n@!%p1 bra REST;\nst.global.u32 [%d2], %r0;\n"
      "barrier.sync 1, 64;\nld.global.u32 %r1, [%d1+128];\nREST:\n";
  expect_ordered(begin, 96);
  expect_race(begin + "@!%p1 ld.global.u32 %r2, [%d1];\n", 96);
}

TEST(Races, AWarpBarrierOrdersItsLanes) {
  const std::string pass = "st.global.u32 [%d2], %r0;\nbar.warp.sync -1;\nld.global.u32 %r1, [%d1+4];\n";
  expect_ordered(pass, 32);
  expect_race(pass, 64);
  expect_race("st.global.u32 [%d2], %r0;\nshfl.sync.idx.b32 %r2, %r0, 0, 31, -1;\nld.global.u32 %r1, [%d1+4];\n", 32);
}

// The last block that counts reads the values of the others. Without one of the two fences, this is a race.
TEST(Races, FencesAndAtomicsOrderBlocks) {
  const auto last_block = [](const std::string& release, const std::string& acquire) {
    return "mul.wide.u32 %d4, %r9, 4;\nadd.s64 %d5, %d1, %d4;\nst.global.u32 [%d5], %r9;\n" + release +
           "atom.global.add.u32 %r1, [%d3], 1;\n" + acquire +
           "setp.ne.s32 %p1, %r1, 2;\n@%p1 exit;\nld.global.u32 %r2, [%d1];\nld.global.u32 %r3, [%d1+4];\n"
           "ld.global.u32 %r4, [%d1+8];\n";
  };
  expect_ordered(last_block("membar.gl;\n", "membar.gl;\n"), 1, 3);
  expect_ordered(last_block("fence.acq_rel.gpu;\n", "fence.sc.gpu;\n"), 1, 3);
  expect_race(last_block("", "membar.gl;\n"), 1, 3);
  expect_race(last_block("membar.gl;\n", ""), 1, 3);
  expect_race(last_block("membar.cta;\n", "membar.gl;\n"), 1, 3);
  const std::string both = "atom.global.acq_rel.gpu.add.u32";
  expect_ordered(replaced(last_block("", ""), "atom.global.add.u32", both), 1, 3);
}

TEST(Races, AtomicsDoNotRaceWithEachOther) {
  expect_ordered("red.global.add.u32 [%d3], 1;\natom.global.max.u32 %r1, [%d3], %r0;\n", 64, 2);
  expect_race("red.global.add.u32 [%d3], 1;\nld.global.u32 %r1, [%d3];\n", 2);
  // Atomic operations of a block are not atomic for another block.
  expect_race("red.global.cta.add.u32 [%d3], 1;\n", 1, 2);
  expect_ordered("red.global.cta.add.u32 [%d3], 1;\n", 64);
}

// A thread polls a flag that another sets.
TEST(Races, AFlagWithFencesOrdersTwoThreads) {
  const auto poll = [](const std::string& fence) {
    return "setp.ge.u32 %p1, %r0, 32;\n@%p1 bra READER;\nsetp.ne.s32 %p2, %r0, 0;\n@%p2 exit;\nst.global.u32 [%d1], "
           "9;\n" +
           fence +
           "st.volatile.global.u32 [%d3], 1;\nexit;\nREADER:\nsetp.ne.s32 %p2, %r0, 32;\n@%p2 exit;\nWAIT:\n"
           "ld.volatile.global.u32 %r1, [%d3];\nsetp.eq.s32 %p3, %r1, 0;\n@%p3 bra WAIT;\n" +
           fence + "ld.global.u32 %r2, [%d1];\n";
  };
  expect_ordered(poll("membar.gl;\n"), 64);
  expect_ordered(poll("membar.cta;\n"), 64);
  expect_race(poll(""), 64);
}

// A thread polls a flag, as in the test above, but with `.acquire`, and the other one sets it with `.release`.
TEST(Races, ReleaseAndAcquireOrderTwoThreads) {
  const auto poll = [](const std::string& store, const std::string& load) {
    return "setp.ge.u32 %p1, %r0, 32;\n@%p1 bra READER;\nsetp.ne.s32 %p2, %r0, 0;\n@%p2 exit;\n"
           "st.global.u32 [%d1], 9;\n" +
           store +
           " [%d3], 1;\nexit;\nREADER:\nsetp.ne.s32 %p2, %r0, 32;\n"
           "@%p2 exit;\nWAIT:\n" +
           load +
           " %r1, [%d3];\nsetp.eq.s32 %p3, %r1, 0;\n@%p3 bra WAIT;\n"
           "ld.global.u32 %r2, [%d1];\n";
  };
  expect_ordered(poll("st.release.gpu.global.u32", "ld.acquire.gpu.global.u32"), 64);
  expect_ordered(poll("st.release.cta.global.u32", "ld.acquire.cta.global.u32"), 64);
  expect_race(poll("st.relaxed.gpu.global.u32", "ld.acquire.gpu.global.u32"), 64);
  expect_race(poll("st.release.gpu.global.u32", "ld.relaxed.gpu.global.u32"), 64);
}

TEST(Races, AFaultNamesBothAccesses) {
  const Execution done = run(".loc 1 7 0\nst.global.u32 [%d1], %r0;\n", 2, 1, Order::kFair);
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->buffer, "data + 0 of 1024 bytes");
  EXPECT_EQ(done.fault->cause,
            "nothing orders this write after the write of thread (0, 0, 0) of block (0, 0, 0) at PTX line " +
                std::to_string(done.fault->line))
      << done.fault->print();
}

// Launches on the same memory are ordered.
TEST(Races, LaunchesFollowEachOther) {
  const auto module = module_of(kernel_text(std::string(kHead) + "st.global.u32 [%d2], %r0;\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const uint64_t data = memory.add("data", 256);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(execute(*module, "test", {.threads = {64, 1, 1}, .arguments = {data, 0, 0, 0}}, memory, {}).fault);
  }
}

}  // namespace
}  // namespace xrun::ptx
