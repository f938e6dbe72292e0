// Launches that exceed the limits of a multiprocessor, and special registers.
#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

std::string refusal(const std::string& text, Launch launch, Generation generation = Generation::kH100) {
  const auto module = module_of(text);
  if (module == nullptr) {
    return "";
  }
  if (launch.arguments.empty()) {
    launch.arguments = {0, 0, 0, 0};
  }
  Memory memory;
  const Execution done = execute(*module, "test", launch, memory, {.generation = generation});
  if (!done.fault) {
    return "";
  }
  EXPECT_EQ(done.fault->kind, FaultKind::kLaunch) << done.fault->print();
  return done.fault->print();
}

TEST(Launches, RegistersSharedMemoryAndThreadsAreLimited) {
  const std::string empty = kernel_text("");
  EXPECT_EQ(refusal(empty, {.threads = {512, 1, 1}, .registers = 128}), "");
  EXPECT_NE(refusal(empty, {.threads = {512, 1, 1}, .registers = 129}).find("69632; a multiprocessor has 65536"),
            std::string::npos);
  EXPECT_NE(refusal(empty, {.threads = {1025, 1, 1}}).find("1025 threads"), std::string::npos);
  EXPECT_NE(refusal(empty, {.threads = {0, 1, 1}}), "");
  EXPECT_NE(refusal(empty, {.arguments = {0, 0}}).find("2 arguments for 4 parameters"), std::string::npos);
  EXPECT_EQ(refusal(empty, {.dynamic_shared = 227 * 1024}), "");
  EXPECT_NE(refusal(empty, {.dynamic_shared = 227 * 1024 + 1}), "");
  EXPECT_NE(refusal(empty, {.dynamic_shared = 164 * 1024}, Generation::kA100), "");
  EXPECT_NE(refusal(kernel_text(".shared .b8 box[49153];\n"), {}).find("static shared memory"), std::string::npos);
}

TEST(Launches, BoundsOfTheKernelAreEnforced) {
  const std::string bounded = replaced(kernel_text(""), ")\n{", ")\n.maxntid 64, 1, 1\n.minnctapersm 2\n{");
  EXPECT_EQ(refusal(bounded, {.threads = {64, 1, 1}}), "");
  EXPECT_NE(refusal(bounded, {.threads = {65, 1, 1}}), "");
}

TEST(Launches, TextsForNewerGenerationsAreRefused) {
  const auto text = [](const char* target) { return replaced(kernel_text(""), "sm_80", target); };
  EXPECT_EQ(refusal(text("sm_90"), {}, Generation::kB200), "");
  EXPECT_EQ(refusal(text("sm_90a"), {}, Generation::kH100), "");
  EXPECT_NE(refusal(text("sm_90"), {}, Generation::kA100).find("the GPU is `sm_80`"), std::string::npos);
  EXPECT_NE(refusal(text("sm_90a"), {}, Generation::kB200).find("for `sm_90a`"), std::string::npos);
}

// A structure of 12 bytes is passed as bytes.
TEST(Launches, ParametersAsBytes) {
  const auto module = module_of(
      ".target sm_80\n.entry test(.param .align 8 .b8 pair[12], .param .u64 out)\n{\n.reg .b32 %r<4>;\n"
      ".reg .b64 %d<4>;\nld.param.u32 %r1, [pair+8];\nld.param.u64 %d1, [out];\nst.global.u32 [%d1], %r1;\nret;\n}\n");
  ASSERT_NE(module, nullptr);
  ASSERT_EQ(module->kernels.front().parameter_bytes, 24u);
  Memory memory;
  const uint64_t out = memory.add("out", 4);
  Launch launch;
  launch.parameters.resize(24);
  const uint32_t value = 77;
  std::memcpy(&launch.parameters[8], &value, 4);
  std::memcpy(&launch.parameters[16], &out, 8);
  const Execution done = execute(*module, "test", launch, memory, {});
  ASSERT_FALSE(done.fault) << done.fault->print();
  EXPECT_EQ(values_of<uint32_t>(memory, out, 1)[0], 77u);
  launch.parameters.resize(20);
  EXPECT_EQ(execute(*module, "test", launch, memory, {}).fault->kind, FaultKind::kLaunch);
}

TEST(Launches, SpecialRegistersGiveThePlaceOfAThread) {
  const auto module = module_of(kernel_text(
      "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %ntid.x;\nmad.lo.s32 %r4, %r2, %r3, %r1;\n"
      "mov.u32 %r5, %ctaid.y;\nmov.u32 %r6, %nctaid.x;\nmov.u32 %r7, %ctaid.x;\nmad.lo.s32 %r8, %r5, %r6, %r7;\n"
      "mov.u32 %r9, %ntid.y;\nmul.lo.s32 %r10, %r3, %r9;\nmad.lo.s32 %r11, %r8, %r10, %r4;\nmov.u32 %r12, %laneid;\n"
      "mov.u32 %r13, %warpid;\nshl.b32 %r14, %r13, 8;\nadd.s32 %r15, %r14, %r12;\nmov.u32 %r16, %lanemask_lt;\n"
      "popc.b32 %r17, %r16;\nld.param.u64 %d1, [p0];\nmul.wide.u32 %d2, %r11, 8;\nadd.s64 %d3, %d1, %d2;\n"
      "st.global.v2.u32 [%d3], {%r15, %r17};\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  const size_t count = 6 * 40;
  const uint64_t out = memory.add("out", 8 * count);
  const Launch launch{.blocks = {2, 3, 1}, .threads = {8, 5, 1}, .arguments = {out, 0, 0, 0}};
  const Execution done = execute(*module, "test", launch, memory, {});
  ASSERT_FALSE(done.fault) << done.fault->print();
  const auto words = values_of<uint32_t>(memory, out, 2 * count);
  for (size_t i = 0; i < count; ++i) {
    const size_t thread = i % 40;
    EXPECT_EQ(words[2 * i], thread / 32 * 256 + thread % 32);
    EXPECT_EQ(words[2 * i + 1], thread % 32);
  }
}

}  // namespace
}  // namespace xrun::ptx
