// Loads, stores and atomic operations, with the faults of addresses and values.
#include <algorithm>

#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

// %r0: thread, %d1 to %d4: the four pointers.
constexpr const char* kPointers =
    "mov.u32 %r0, %tid.x;\nld.param.u64 %d1, [p0];\nld.param.u64 %d2, [p1];\nld.param.u64 %d3, [p2];\n"
    "ld.param.u64 %d4, [p3];\n";

struct Buffers {
  Memory memory;
  uint64_t in = add(memory, "in", std::vector<uint32_t>{1, 2, 3, 4, 0x80818283, 0xfffefdfc, 7, 8});
  uint64_t out = memory.add("out", 64);
};

Execution run(Buffers& buffers, const std::string& lines, uint32_t threads = 1, const std::string& before = "") {
  const auto module = module_of(replaced(kernel_text(kPointers + lines), ".visible", before + ".visible"));
  if (module == nullptr) {
    return {};
  }
  const Launch launch{.threads = {threads, 1, 1}, .arguments = {buffers.in, buffers.out, 0, 0}};
  return execute(*module, "test", launch, buffers.memory, {});
}

// Returns the 32-bit words that the lines store.
std::vector<uint32_t> stored(const std::string& lines, size_t count, const std::string& before = "") {
  Buffers buffers;
  const Execution done = run(buffers, lines, 1, before);
  EXPECT_FALSE(done.fault) << lines << (done.fault ? done.fault->print() : "");
  return values_of<uint32_t>(buffers.memory, buffers.out, count);
}

// Returns the kind of the fault and the buffer that it names.
std::pair<FaultKind, std::string> fault_of(const std::string& lines, uint32_t threads = 1,
                                           const std::string& before = "") {
  Buffers buffers;
  const Execution done = run(buffers, lines, threads, before);
  EXPECT_TRUE(done.fault) << lines;
  return done.fault ? std::pair{done.fault->kind, done.fault->buffer} : std::pair{FaultKind::kBudget, std::string()};
}

using Words = std::vector<uint32_t>;

TEST(Accesses, WidthsSignsAndVectors) {
  EXPECT_EQ(stored("ld.global.u8 %r1, [%d1+16];\nst.global.u32 [%d2], %r1;\n", 1), Words{0x83});
  EXPECT_EQ(stored("ld.global.s8 %r1, [%d1+16];\nst.global.u32 [%d2], %r1;\n", 1), Words{0xffffff83});
  EXPECT_EQ(stored("ld.global.s16 %r1, [%d1+18];\nst.global.u32 [%d2], %r1;\n", 1), Words{0xffff8081});
  EXPECT_EQ(stored("ld.global.s32 %d5, [%d1+20];\nst.global.u64 [%d2], %d5;\n", 2), (Words{0xfffefdfc, 0xffffffff}));
  EXPECT_EQ(stored("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1];\nst.global.v2.u32 [%d2], {%r4, %r2};\n", 2),
            (Words{4, 2}));
  EXPECT_EQ(stored("ld.global.v2.u64 {%d5, %d6}, [%d1];\nst.global.v2.b64 [%d2], {%d6, %d5};\n", 4),
            (Words{3, 4, 1, 2}));
  EXPECT_EQ(stored("ld.global.nc.L1::no_allocate.L2::128B.u32 %r1, [%d1+4];\nst.global.wt.u32 [%d2], %r1;\n", 1),
            Words{2});
  EXPECT_EQ(stored("st.global.f32 [%d2], 0f3F800000;\n", 1), Words{0x3f800000});
}

TEST(Accesses, SpacesAndGenericAddresses) {
  const std::string shared = ".shared .align 4 .b8 box[16];\n";
  EXPECT_EQ(stored(shared + "st.shared.u32 [box+4], 9;\nld.shared.u32 %r1, [box+4];\nst.global.u32 [%d2], %r1;\n", 1),
            Words{9});
  EXPECT_EQ(stored(shared + "mov.u64 %d5, box;\ncvta.shared.u64 %d6, %d5;\nst.u32 [%d6+8], 11;\nmov.u32 %r2, box;\n"
                            "ld.shared.u32 %r1, [%r2+8];\nst.global.u32 [%d2], %r1;\n",
                   1),
            Words{11});
  EXPECT_EQ(stored("ld.const.u32 %r1, [table+4];\nst.global.u32 [%d2], %r1;\n", 1,
                   ".const .align 4 .u32 table[2] = {5, 6};\n"),
            Words{6});
  EXPECT_EQ(stored("ld.global.u32 %r1, [counter];\nst.u32 [%d2], %r1;\n", 1, ".global .align 4 .u32 counter = 12;\n"),
            Words{12});
  EXPECT_EQ(stored("cvta.to.global.u64 %d5, %d2;\nst.global.u32 [%d5], 3;\n", 1), Words{3});
}

// Each thread has its own array; the pointer is generic as in texts of nvcc.
TEST(Accesses, LocalArraysBelongToOneThread) {
  const std::string local = ".local .align 8 .b8 depot[16];\nmov.u64 %d5, depot;\ncvta.local.u64 %d6, %d5;\n";
  EXPECT_EQ(stored(local + "st.local.u32 [%d5+4], 9;\nld.u32 %r1, [%d6+4];\nst.global.u32 [%d2], %r1;\n", 1), Words{9});
  EXPECT_EQ(stored(local + "st.v2.u32 [%d6+8], {7, 8};\nld.local.u32 %r1, [depot+12];\nst.global.u32 [%d2], %r1;\n", 1),
            Words{8});
  // All threads write at the same address and read their own value.
  Buffers buffers;
  const Execution done = run(buffers,
                             local +
                                 "st.local.u32 [%d5], %r0;\nld.local.u32 %r1, [%d5];\n"
                                 "mul.wide.u32 %d7, %r0, 4;\nadd.s64 %d8, %d2, %d7;\n"
                                 "st.global.u32 [%d8], %r1;\n",
                             16);
  ASSERT_FALSE(done.fault) << done.fault->print();
  EXPECT_EQ(values_of<uint32_t>(buffers.memory, buffers.out, 16)[11], 11u);
  EXPECT_EQ(fault_of(local + "ld.local.u32 %r1, [%d5];\n").first, FaultKind::kUninitialisedMemory);
  const auto far = fault_of(local + "st.local.u32 [%d5+16], 1;\n");
  EXPECT_EQ(far, (std::pair{FaultKind::kOutOfBounds, std::string("depot + 16 of 16 bytes")}));
  EXPECT_EQ(fault_of(local + "st.global.u32 [%d6], 1;\n").first, FaultKind::kOutOfBounds);
  EXPECT_EQ(fault_of(".local .b8 depot[600000];\n").first, FaultKind::kLaunch);
}

TEST(Accesses, SpacesOfGenericAddresses) {
  const std::string lines =
      ".shared .align 4 .b8 box[16];\n.local .align 4 .b8 own[16];\nmov.u64 %d5, box;\ncvta.shared.u64 %d6, %d5;\n"
      "mov.u64 %d7, own;\ncvta.local.u64 %d8, %d7;\nmov.u32 %r1, 0;\n"
      "isspacep.shared %p1, %d6;\n@%p1 or.b32 %r1, %r1, 1;\nisspacep.shared %p1, %d8;\n@%p1 or.b32 %r1, %r1, 2;\n"
      "isspacep.local %p1, %d8;\n@%p1 or.b32 %r1, %r1, 4;\nisspacep.global %p1, %d2;\n@%p1 or.b32 %r1, %r1, 8;\n"
      "isspacep.global %p1, %d6;\n@%p1 or.b32 %r1, %r1, 16;\nst.global.u32 [%d2], %r1;\n";
  EXPECT_EQ(stored(lines, 1), Words{13});
}

TEST(Accesses, PrefetchesNeedNoValidAddress) {
  EXPECT_EQ(stored("prefetch.global.L2 [%d1+4096];\nprefetchu.L1 [%d3];\nst.global.u32 [%d2], 5;\n", 1), Words{5});
}

TEST(Accesses, PredicatesMayBeConstants) {
  EXPECT_EQ(stored("mov.pred %p1, -1;\nmov.pred %p2, 1;\nxor.pred %p3, %p1, %p2;\nselp.b32 %r1, 4, 6, %p3;\n"
                   "st.global.u32 [%d2], %r1;\n",
                   1),
            Words{6});
}

TEST(Accesses, AddressesOutsideABufferNameIt) {
  const auto far = fault_of("ld.global.u32 %r1, [%d1+32];\n");
  EXPECT_EQ(far.first, FaultKind::kOutOfBounds);
  EXPECT_EQ(far.second, "in + 32 of 32 bytes");
  EXPECT_EQ(fault_of("ld.global.u64 %d5, [%d1+28];\n").first, FaultKind::kOutOfBounds);
  EXPECT_EQ(fault_of("st.global.u32 [%d3], 1;\n").first, FaultKind::kOutOfBounds) << "a null pointer";
  EXPECT_EQ(fault_of(".shared .b8 box[16];\nst.shared.u32 [box+16], 1;\n").first, FaultKind::kOutOfBounds);
  // A store of a shared address to the wrong space.
  EXPECT_EQ(fault_of(".shared .b8 box[16];\nmov.u64 %d5, box;\nst.global.u32 [%d5], 1;\n").first,
            FaultKind::kOutOfBounds);
}

TEST(Accesses, MisalignedAddressesAndConstants) {
  EXPECT_EQ(fault_of("ld.global.u32 %r1, [%d1+2];\n").first, FaultKind::kMisaligned);
  EXPECT_EQ(fault_of("ld.global.v2.u32 {%r1, %r2}, [%d1+4];\n").first, FaultKind::kMisaligned);
  EXPECT_EQ(fault_of("mov.u64 %d5, table;\nst.u32 [%d5], 1;\n", 1, ".const .align 4 .u32 table[2] = {5, 6};\n").first,
            FaultKind::kReadOnly);
}

TEST(Accesses, ReadsOfUninitialisedValuesAreFound) {
  EXPECT_EQ(fault_of("add.s32 %r1, %r2, 1;\n").first, FaultKind::kUninitialisedRegister);
  EXPECT_EQ(fault_of("@%p1 add.s32 %r1, %r0, 1;\n").first, FaultKind::kUninitialisedRegister) << "the guard";
  EXPECT_EQ(fault_of("ld.global.u32 %r1, [%d2];\n"),
            (std::pair{FaultKind::kUninitialisedMemory, std::string("out + 0 of 64 bytes")}));
  EXPECT_EQ(fault_of("st.global.u16 [%d2], 1;\nld.global.u32 %r1, [%d2];\n").first, FaultKind::kUninitialisedMemory)
      << "half of a word";
  // Only one branch gives the register a value.
  const std::string branch = "setp.eq.s32 %p1, %r0, 0;\n@%p1 mov.u32 %r1, 4;\n";
  EXPECT_EQ(fault_of(branch + "add.s32 %r2, %r1, 1;\n", 2).first, FaultKind::kUninitialisedRegister);
}

TEST(Accesses, AFaultNamesKernelLineThreadAndInstruction) {
  Buffers buffers;
  const Execution done =
      run(buffers, ".loc 1 42 0\nmul.wide.u32 %d5, %r0, 4;\nadd.s64 %d6, %d1, %d5;\nld.global.u32 %r1, [%d6];\n", 9,
          ".file 1 \"/home/someone/kernel.cu\"\n");
  ASSERT_TRUE(done.fault);
  EXPECT_EQ(done.fault->kernel, "test");
  EXPECT_EQ(done.fault->source, "kernel.cu:42");
  EXPECT_EQ(done.fault->thread[0], 8u);
  const std::string text = done.fault->print();
  EXPECT_NE(text.find("test, kernel.cu:42 (PTX line"), std::string::npos) << text;
  EXPECT_NE(text.find("thread (8, 0, 0)"), std::string::npos) << text;
  EXPECT_NE(text.find("(in + 32 of 32 bytes)"), std::string::npos) << text;
  EXPECT_NE(text.find("`ld.global.u32 %r1, [%d6]`"), std::string::npos) << text;
}

// Each operation by many threads on one word; the results do not depend on their order.
TEST(Atomics, IntegersOfAllThreads) {
  const auto total = [](const std::string& operation, uint32_t start) {
    Buffers buffers;
    buffers.memory.write(buffers.out, std::as_bytes(std::span(&start, 1)));
    const Execution done = run(buffers, operation, 96);
    EXPECT_FALSE(done.fault) << operation << (done.fault ? done.fault->print() : "");
    return values_of<uint32_t>(buffers.memory, buffers.out, 1)[0];
  };
  EXPECT_EQ(total("red.global.add.u32 [%d2], %r0;\n", 5), 5 + 95 * 96 / 2);
  EXPECT_EQ(total("atom.global.max.u32 %r1, [%d2], %r0;\n", 5), 95u);
  EXPECT_EQ(total("atom.global.min.s32 %r1, [%d2], %r0;\n", UINT32_MAX), UINT32_MAX);
  EXPECT_EQ(total("atom.global.inc.u32 %r1, [%d2], 9;\n", 0), 96 % 10);
  EXPECT_EQ(total("atom.global.dec.u32 %r1, [%d2], 9;\n", 0), 4u);
  EXPECT_EQ(total("atom.or.b32 %r1, [%d2], %r0;\n", 0), 127u);
  EXPECT_EQ(total("atom.global.and.b32 %r1, [%d2], %r0;\n", 127), 0u);
  EXPECT_EQ(total("atom.global.cas.b32 %r1, [%d2], 7, 8;\n", 7), 8u);
  EXPECT_EQ(total("atom.global.gpu.relaxed.exch.b32 %r1, [%d2], 6;\n", 7), 6u);
}

TEST(Atomics, FloatsAreRefusedByName) {
  for (const char* line : {"atom.global.add.f32 %f1, [%d1], %f2;", "red.global.add.f64 [%d1], %e1;"}) {
    const auto module = load_module(kernel_text(line));
    ASSERT_FALSE(module.ok()) << line;
    EXPECT_NE(module.error().message.find("floating-point"), std::string::npos) << module.error().message;
  }
}

}  // namespace
}  // namespace xrun::ptx
