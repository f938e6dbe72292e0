// cp.async: sizes, zeros beyond the source, groups, and reads before the wait.
#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

constexpr const char* kHead =
    ".shared .align 16 .b8 box[64];\nmov.u32 %r0, box;\nld.param.u64 %d1, [p0];\nld.param.u64 %d2, [p1];\n";

Execution run(const std::string& lines, std::vector<uint32_t>* words = nullptr) {
  const auto module = module_of(kernel_text(kHead + lines));
  if (module == nullptr) {
    return {};
  }
  Memory memory;
  const uint64_t in = add(memory, "in", std::vector<uint32_t>{1, 2, 3, 4, 5, 6, 7, 8});
  const uint64_t out = add(memory, "out", std::vector<uint32_t>(4));
  Execution done = execute(*module, "test", {.arguments = {in, out, 0, 0}}, memory, {});
  if (words != nullptr) {
    EXPECT_FALSE(done.fault) << (done.fault ? done.fault->print() : "");
    *words = values_of<uint32_t>(memory, out, 4);
  }
  return done;
}

constexpr const char* kOut =
    "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [box];\nst.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};\n";

using Words = std::vector<uint32_t>;

TEST(Copies, BytesArriveAtTheWait) {
  Words words;
  run(std::string("cp.async.cg.shared.global [%r0], [%d1+16], 16;\ncp.async.commit_group;\ncp.async.wait_group 0;\n") +
          kOut,
      &words);
  EXPECT_EQ(words, (Words{5, 6, 7, 8}));
  run(std::string("cp.async.ca.shared.global [%r0], [%d1], 4;\ncp.async.ca.shared.global [%r0+4], [%d1+8], 4;\n"
                  "cp.async.ca.shared.global.L2::128B [%r0+8], [%d1+24], 8;\ncp.async.wait_all;\n") +
          kOut,
      &words);
  EXPECT_EQ(words, (Words{1, 3, 7, 8}));
}

TEST(Copies, BytesBeyondTheSourceAreZero) {
  Words words;
  run(std::string("mov.u32 %r9, 8;\ncp.async.cg.shared.global [%r0], [%d1], 16, %r9;\ncp.async.wait_all;\n") + kOut,
      &words);
  EXPECT_EQ(words, (Words{1, 2, 0, 0}));
  run(std::string("mov.u32 %r9, 0;\ncp.async.cg.shared.global [%r0], [%d1+32], 16, %r9;\ncp.async.wait_all;\n") + kOut,
      &words);
  EXPECT_EQ(words, (Words{0, 0, 0, 0})) << "a source of no bytes is not read";
}

// Two groups: waiting for all but one makes the first readable, not the second.
TEST(Copies, GroupsEndInOrder) {
  const std::string two =
      "cp.async.cg.shared.global [%r0], [%d1], 16;\ncp.async.commit_group;\n"
      "cp.async.cg.shared.global [%r0+16], [%d1+16], 16;\ncp.async.commit_group;\ncp.async.wait_group 1;\n";
  Words words;
  run(two + kOut, &words);
  EXPECT_EQ(words, (Words{1, 2, 3, 4}));
  const Execution done = run(two + "ld.shared.u32 %r1, [box+16];\n");
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kPendingCopy);
  EXPECT_EQ(done.fault->buffer, "box + 16 of 64 bytes");
}

TEST(Copies, ReadsAndWritesBeforeTheWaitAreFaults) {
  const std::string copy = "cp.async.cg.shared.global [%r0], [%d1], 16;\ncp.async.commit_group;\n";
  for (const std::string use : {"ld.shared.u32 %r1, [box+12];\n", "st.shared.u32 [box+4], 1;\n",
                                "cp.async.wait_group 1;\nld.shared.u32 %r1, [box];\n"}) {
    const Execution done = run(copy + use);
    ASSERT_TRUE(done.fault) << use;
    EXPECT_EQ(done.fault->kind, FaultKind::kPendingCopy) << done.fault->print();
  }
}

TEST(Copies, AddressesAreChecked) {
  for (const auto& [line, kind] :
       {std::pair{"cp.async.cg.shared.global [%r0+8], [%d1], 16;\n", FaultKind::kMisaligned},
        std::pair{"cp.async.cg.shared.global [%r0], [%d1+4], 16;\n", FaultKind::kMisaligned},
        std::pair{"cp.async.cg.shared.global [%r0], [%d1+32], 16;\n", FaultKind::kOutOfBounds},
        std::pair{"cp.async.cg.shared.global [%r0+64], [%d1], 16;\n", FaultKind::kOutOfBounds}}) {
    const Execution done = run(line);
    ASSERT_TRUE(done.fault) << line;
    EXPECT_EQ(done.fault->kind, kind) << done.fault->print();
  }
}

}  // namespace
}  // namespace xrun::ptx
