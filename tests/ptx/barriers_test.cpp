// Branches, barriers and the threads that do not reach them.
#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

constexpr const char* kHead =
    "mov.u32 %r0, %tid.x;\nld.param.u64 %d1, [p0];\nmul.wide.u32 %d0, %r0, 4;\nadd.s64 %d2, %d1, %d0;\n";

Execution run(const std::string& lines, uint32_t threads, Order order, std::vector<uint32_t>* words = nullptr) {
  const auto module = module_of(kernel_text(kHead + lines));
  if (module == nullptr) {
    return {};
  }
  Memory memory;
  const uint64_t out = add(memory, "out", std::vector<uint32_t>(threads));
  const Launch launch{.threads = {threads, 1, 1}, .arguments = {out, 0, 0, 0}};
  Execution done =
      execute(*module, "test", launch, memory, {.order = order, .seed = kSeed, .most_instructions = 1 << 20});
  if (words != nullptr) {
    EXPECT_FALSE(done.fault) << (done.fault ? done.fault->print() : "");
    *words = values_of<uint32_t>(memory, out, threads);
  }
  return done;
}

// Loops whose length differs between the threads of a warp, with an inner branch.
TEST(Branches, ThreadsOfAWarpDivergeAndMeetAgain) {
  const std::string lines =
      "mov.u32 %r1, 0;\nmov.u32 %r2, 0;\nLOOP:\nsetp.ge.u32 %p1, %r2, %r0;\n@%p1 bra DONE;\nand.b32 %r3, %r2, 1;\n"
      "setp.eq.s32 %p2, %r3, 0;\n@%p2 bra EVEN;\nadd.s32 %r1, %r1, 100;\nbra.uni NEXT;\nEVEN:\nadd.s32 %r1, %r1, 1;\n"
      "NEXT:\nadd.s32 %r2, %r2, 1;\nbra LOOP;\nDONE:\nst.global.u32 [%d2], %r1;\n";
  for (const Order order : kOrders) {
    std::vector<uint32_t> words;
    run(lines, 45, order, &words);
    for (uint32_t i = 0; i < 45; ++i) {
      EXPECT_EQ(words[i], (i + 1) / 2 + i / 2 * 100);
    }
  }
}

// If all threads of a warp take the same branch, the warp executes an instruction once for all of them.
TEST(Branches, ThreadsThatTakeTheSameBranchRunTogether) {
  const Execution done = run(
      "mov.u32 %r1, 0;\nLOOP:\nadd.s32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 10;\n@%p1 bra LOOP;\n", 64, Order::kFair);
  EXPECT_FALSE(done.fault);
  EXPECT_EQ(done.thread_instructions, 32 * done.warp_instructions);
}

TEST(Branches, AnEndlessLoopEndsWithItsKernelsName) {
  const Execution done = run("LOOP:\nbra LOOP;\n", 1, Order::kGreedy);
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kBudget);
  EXPECT_EQ(done.fault->kernel, "test");
}

// Each thread reads what the opposite thread wrote.
TEST(Barriers, WritesBeforeABarrierAreReadAfterIt) {
  const std::string lines =
      ".shared .align 4 .b8 box[512];\nmov.u32 %r1, box;\nshl.b32 %r2, %r0, 2;\nadd.s32 %r3, %r1, %r2;\n"
      "st.shared.u32 [%r3], %r0;\nbar.sync 0;\nsub.s32 %r4, 127, %r0;\nshl.b32 %r5, %r4, 2;\nadd.s32 %r6, %r1, %r5;\n"
      "ld.shared.u32 %r7, [%r6];\nst.global.u32 [%d2], %r7;\n";
  for (const Order order : kOrders) {
    std::vector<uint32_t> words;
    run(replaced(lines, "sub.s32 %r4, 127, %r0", "mov.u32 %r8, 127;\nsub.s32 %r4, %r8, %r0"), 128, order, &words);
    for (uint32_t i = 0; i < 128; ++i) {
      EXPECT_EQ(words[i], 127 - i);
    }
  }
}

// Two barriers with counts: warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2.
TEST(Barriers, PartsOfABlockMeet) {
  const std::string lines =
      "shr.u32 %r1, %r0, 6;\nadd.s32 %r2, %r1, 1;\nbarrier.sync %r2, 64;\nst.global.u32 [%d2], %r2;\n";
  for (const Order order : kOrders) {
    std::vector<uint32_t> words;
    run(lines, 128, order, &words);
    EXPECT_EQ(words[63], 1u);
    EXPECT_EQ(words[64], 2u);
  }
}

// __syncthreads_count, _and and _or: threads 0 to 69 of 96 vote for it.
TEST(Barriers, VotesOfABlock) {
  const std::string vote = "setp.lt.u32 %p1, %r0, 70;\n";
  const auto result = [&](const std::string& lines) {
    std::vector<uint32_t> found;
    for (const Order order : kOrders) {
      std::vector<uint32_t> words;
      run(vote + lines + "st.global.u32 [%d2], %r1;\n", 96, order, &words);
      EXPECT_EQ(words.front(), words.back());
      EXPECT_TRUE(found.empty() || found == words);
      found = words;
    }
    return found.front();
  };
  EXPECT_EQ(result("bar.red.popc.u32 %r1, 0, %p1;\n"), 70u);
  EXPECT_EQ(result("bar.red.popc.u32 %r1, 0, !%p1;\n"), 26u);
  EXPECT_EQ(result("barrier.cta.red.popc.aligned.u32 %r1, 3, 96, %p1;\n"), 70u);
  EXPECT_EQ(result("bar.red.and.pred %p2, 0, %p1;\nselp.b32 %r1, 1, 0, %p2;\n"), 0u);
  EXPECT_EQ(result("bar.red.or.pred %p2, 0, 96, %p1;\nselp.b32 %r1, 1, 0, %p2;\n"), 1u);
  EXPECT_EQ(result("setp.lt.u32 %p1, %r0, 96;\nbar.red.and.pred %p2, 0, %p1;\nselp.b32 %r1, 1, 0, %p2;\n"), 1u);
}

// The barrier is used twice, and the second result does not count the votes of the first use.
TEST(Barriers, VotesAreClearedAfterEachUse) {
  for (const Order order : kOrders) {
    std::vector<uint32_t> words;
    run("setp.lt.u32 %p1, %r0, 5;\nbar.red.popc.u32 %r1, 0, %p1;\nbar.red.popc.u32 %r2, 0, %p1;\n"
        "add.s32 %r3, %r1, %r2;\nst.global.u32 [%d2], %r3;\n",
        64, order, &words);
    EXPECT_EQ(words[63], 10u);
  }
}

TEST(Branches, ListsOfLabels) {
  const std::string lines =
      "and.b32 %r1, %r0, 3;\nWAYS: .branchtargets ZERO, ONE, ONE, THREE;\nbrx.idx %r1, WAYS;\nZERO:\n"
      "mov.u32 %r2, 100;\nbra DONE;\nONE:\nmov.u32 %r2, 200;\nbra DONE;\nTHREE:\nmov.u32 %r2, 300;\nDONE:\n"
      "st.global.u32 [%d2], %r2;\n";
  for (const Order order : kOrders) {
    std::vector<uint32_t> words;
    run(lines, 40, order, &words);
    for (uint32_t i = 0; i < 40; ++i) {
      EXPECT_EQ(words[i], (std::array<uint32_t, 4>{100, 200, 200, 300}[i % 4]));
    }
  }
  const Execution done = run(replaced(lines, "and.b32 %r1, %r0, 3", "add.s32 %r1, %r0, 4"), 1, Order::kFair);
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kArithmetic);
}

TEST(Branches, SleepsAndBreakpoints) {
  EXPECT_FALSE(run("nanosleep.u32 20;\n", 32, Order::kFair).fault);
  for (const char* line : {"trap;\n", "brkpt;\n"}) {
    const Execution done = run(line, 1, Order::kFair);
    ASSERT_TRUE(done.fault) << line;
    EXPECT_EQ(done.fault->kind, FaultKind::kArithmetic);
  }
}

TEST(Barriers, ThreadsThatHaveExitedAreADivergentBarrier) {
  for (const char* exit :
       {"setp.ge.u32 %p1, %r0, 32;\n@%p1 exit;\nbar.sync 0;\n", "setp.eq.s32 %p1, %r0, 5;\n@%p1 ret;\nbar.sync 0;\n"}) {
    for (const Order order : kOrders) {
      const Execution done = run(exit, 64, order);
      ASSERT_TRUE(done.fault) << exit;
      EXPECT_EQ(done.fault->kind, FaultKind::kDivergentBarrier) << done.fault->print();
      EXPECT_NE(done.fault->cause.find("exited"), std::string::npos) << done.fault->print();
    }
  }
}

TEST(Barriers, ThreadsAtAnotherBarrierAreADivergentBarrier) {
  // In one warp, between warps at the same barrier, and between warps at different ones.
  for (const char* lines :
       {"setp.lt.u32 %p1, %r0, 16;\n@%p1 bra OTHER;\nbar.sync 0;\nbra DONE;\nOTHER:\nbar.sync 0;\nDONE:\n",
        "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra OTHER;\nbar.sync 0;\nbra DONE;\nOTHER:\nbar.sync 0;\nDONE:\n",
        "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra OTHER;\nbar.sync 1;\nbra DONE;\nOTHER:\nbar.sync 2;\nDONE:\n"}) {
    for (const Order order : kOrders) {
      const Execution done = run(lines, 64, order);
      ASSERT_TRUE(done.fault) << lines;
      EXPECT_EQ(done.fault->kind, FaultKind::kDivergentBarrier) << done.fault->print();
    }
  }
}

}  // namespace
}  // namespace xrun::ptx
