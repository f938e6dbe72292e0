// Texts of PTX that are accepted, and the lines of faults in texts that are refused.
#include "tests/ptx/kernels.h"

namespace xrun::ptx {
namespace {

// The message for a text with a fault.
std::string refused(const std::string& text) {
  const auto module = load_module(text);
  return module.ok() ? "accepted" : module.error().message;
}

TEST(Parser, GoldenTextsAreAccepted) {
  for (const char* name : {"product", "rows", "add"}) {
    const auto module = module_of(golden_text(name));
    ASSERT_NE(module, nullptr) << name;
    EXPECT_EQ(module->target, "sm_80");
  }
  const auto rows = module_of(golden_text("rows"));
  ASSERT_NE(rows->find("sum_rows"), nullptr);
  EXPECT_EQ(rows->find("sum_rows")->parameters.size(), 3u);
  EXPECT_EQ(rows->variables.size(), 2u);
  EXPECT_EQ(rows->find("nothing"), nullptr);
}

TEST(Parser, FaultsNameTheirLine) {
  EXPECT_EQ(refused(""), "PTX line 1: the text has no `.target`");
  EXPECT_EQ(refused(".target sm_80\n.func f() { ret; "), "PTX line 2: a block is not closed");
  EXPECT_EQ(refused(".target sm_80\n.extern .func (.param .b32 r) f(.param .b32 a);\n.func g() { ret; }"), "accepted");
  EXPECT_EQ(refused(".target sm_80\n.entry f()\n{\nadd.s32 %r1, %r2, %r3;\n}"),
            "PTX line 4: `add.s32`: the result `%r1` is not a register");
  EXPECT_EQ(refused(kernel_text("frob.s32 %r1, %r2;")),
            "PTX line 12: `frob.s32`: the machine does not execute this "
            "instruction");
  EXPECT_EQ(refused(kernel_text("add.s32.odd %r1, %r2, %r3;")),
            "PTX line 12: `add.s32.odd`: the machine does not execute the modifier `.odd` here");
  EXPECT_EQ(refused(kernel_text("add.s32 %r1, %d2, %r3;")),
            "PTX line 12: `add.s32`: `%d2` has 64 bits, and the instruction needs 32");
  EXPECT_EQ(refused(kernel_text("add.s32 %r1, %r99, 1;")), "PTX line 12: `add.s32`: `%r99` is not declared");
  EXPECT_EQ(refused(kernel_text("bra NOWHERE;")), "PTX line 12: `bra`: the label `NOWHERE` does not exist");
  EXPECT_EQ(refused(kernel_text("mov.u32 %r1, %clock;")), "PTX line 12: `mov.u32`: `%clock` is not declared");
  EXPECT_EQ(refused(kernel_text("selp.b32 %r1, %r2, %r3, !%p1;")),
            "PTX line 12: `selp.b32`: the instruction cannot negate an operand");
  EXPECT_EQ(refused(kernel_text("A: A: ret;")), "PTX line 12: the label `A` is defined twice");
  EXPECT_EQ(refused(kernel_text("call f, (%r1);")),
            "PTX line 12: the kernel calls the function `f`, and the machine does not execute calls");
  EXPECT_EQ(refused(kernel_text("call.uni (%r1), g, (%r2);")),
            "PTX line 12: the kernel calls the function `g`, and the machine does not execute calls");
}

// nvcc declares an array outside of the kernels if two of them use it, or a template that both call.
TEST(Parser, AKernelHasOnlyTheSharedArraysThatItNames) {
  const auto module = module_of(
      ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 box[4096];\n.shared .align 4 .b8 "
      "box2[1024];\n.entry one()\n{\n.reg .b32 %r<3>;\nmov.u32 %r1, box2;\nret;\n}\n.entry two()\n{\n.reg .b32 "
      "%r<3>;\nmov.u32 %r1, box;\nmov.u32 %r2, box2;\nret;\n}\n.entry none()\n{\nret;\n}\n");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->find("one")->shared_bytes, 1024u);
  EXPECT_EQ(module->find("two")->shared_bytes, 4096u + 1024u);
  EXPECT_EQ(module->find("none")->shared_bytes, 0u);
}

TEST(Parser, TypesThatAnInstructionDoesNotHaveAreRefused) {
  EXPECT_EQ(refused(kernel_text("shl.pred %p1, %p2, 1;")),
            "PTX line 12: `shl.pred`: the machine does not execute the instruction for this type");
}

TEST(Parser, BlocksInBracesHaveTheirOwnRegisters) {
  const auto module = module_of(
      kernel_text("{\n.reg .pred p;\nsetp.eq.s32 p, 1, 1;\n@p mov.u32 %r1, 4;\n}\n{\n.reg .b32 p;\nmov.u32 p, 5;\n"
                  "add.s32 %r2, p, 6;\n}\n"));
  ASSERT_NE(module, nullptr);
  Memory memory;
  EXPECT_FALSE(execute(*module, "test", {.arguments = {0, 0, 0, 0}}, memory, {}).fault);
}

TEST(Parser, SizesAreBounded) {
  EXPECT_NE(refused(kernel_text(".reg .b32 %q<70000>;")).find("65536 registers"), std::string::npos);
  EXPECT_NE(refused(".target sm_80\n.global .b8 big[99999999999];").find("64 MiB"), std::string::npos);
  EXPECT_NE(refused(".target sm_80\n.global .u64 big[4611686018427387904];").find("64 MiB"), std::string::npos);
  EXPECT_NE(refused(kernel_text(".reg .b32 %q<99999999999999999999999>;")).find("64 bits"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 100; ++i) {
    deep += "{ ";
  }
  EXPECT_NE(refused(kernel_text(deep)).find("braces"), std::string::npos);
}

// Texts that are cut off or damaged in one place are refused with a line, or their kernels end, with or without a
// fault.
TEST(Parser, DamagedTextsAreRefusedOrEnd) {
  const std::string text = golden_text("rows");
  std::mt19937_64 random(kSeed);
  const std::string signs = ";,{}[]()<>%.:+-@!|=0x7f \"/*";
  size_t refusals = 0;
  size_t faults = 0;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = text;
    const size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        damaged.resize(at);
        break;
      case 1:
        damaged[at] = signs[random() % signs.size()];
        break;
      case 2:
        damaged.erase(at, 1 + random() % 20);
        break;
      default:
        damaged.insert(at, text.substr(random() % text.size(), random() % 40));
        break;
    }
    const auto module = load_module(damaged);
    if (!module.ok()) {
      ++refusals;
      EXPECT_TRUE(module.error().message.starts_with("PTX line ")) << module.error().message << ", seed " << kSeed;
      continue;
    }
    for (const Kernel& kernel : module.value()->kernels) {
      Memory memory;
      Launch launch{.threads = {40, 1, 1}, .dynamic_shared = 64};
      launch.arguments.assign(kernel.parameters.size(), add(memory, "data", std::vector<uint32_t>(64, 1)));
      const Execution done = execute(*module.value(), kernel.name, launch, memory, {.most_instructions = 20000});
      faults += done.fault ? 1 : 0;
    }
  }
  EXPECT_GT(refusals, 100u);
  EXPECT_GT(faults, 20u);
}

}  // namespace
}  // namespace xrun::ptx
