// The list of bytes that the last launch accessed, and the removal of buffers.
#include <gmock/gmock.h>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

using ::testing::ElementsAre;

struct Buffers {
  Memory memory;
  uint64_t in = add(memory, "in", std::vector<uint32_t>{1, 2, 3, 4});
  uint64_t out = memory.add("out", 64);
};

// Executes lines in which %d1 is the address of `in` and %d2 that of `out`.
Execution run(Buffers& buffers, const std::string& lines) {
  const auto module = module_of(kernel_text("ld.param.u64 %d1, [p0];\nld.param.u64 %d2, [p1];\n" + lines));
  return execute(*module, "test", {.arguments = {buffers.in, buffers.out, 0, 0}}, buffers.memory, {});
}

std::vector<std::string> accessed(const Buffers& buffers) {
  std::vector<std::string> ranges;
  for (const AccessedRange& range : buffers.memory.accessed()) {
    const bool in = range.address < buffers.out;
    ranges.push_back((range.written ? "write of " : "read of ") + std::string(in ? "in" : "out") + " + " +
                     std::to_string(range.address - (in ? buffers.in : buffers.out)) + ", " +
                     std::to_string(range.bytes) + " bytes");
  }
  return ranges;
}

TEST(AccessedRanges, ReadsAndWritesOfTheLastLaunchAreListed) {
  Buffers buffers;
  EXPECT_THAT(accessed(buffers), ElementsAre());
  EXPECT_FALSE(
      run(buffers, "mov.u16 %h1, 5;\nld.global.v2.u32 {%r1, %r2}, [%d1 + 8];\nst.global.u16 [%d2 + 6], %h1;\n").fault);
  EXPECT_THAT(accessed(buffers), ElementsAre("read of in + 8, 8 bytes", "write of out + 6, 2 bytes"));
  EXPECT_FALSE(run(buffers, "ld.global.u32 %r1, [%d1];\nst.global.u32 [%d1], %r1;\n").fault);
  EXPECT_THAT(accessed(buffers), ElementsAre("write of in + 0, 4 bytes"));
}

TEST(AccessedRanges, ARemovedBufferIsOutsideTheMemory) {
  Buffers buffers;
  buffers.memory.remove(buffers.out);
  const Execution done = run(buffers, "mov.u32 %r1, 5;\nst.global.u32 [%d2], %r1;\n");
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kind, FaultKind::kOutOfBounds);
  EXPECT_NE(buffers.memory.add("next", 64), buffers.out);
}

}  // namespace
}  // namespace xrun::ptx
