// xrun_jit.so: compiles loops with LLVM's code generator for x86 and links them into the process with ORC.
// Tests: tests/ops/jit/element_loop_test.cpp
#include <atomic>
#include <llvm/Config/llvm-config.h>
#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include "ops/jit/plugin/emitted_module.h"
#include "ops/jit/plugin/llvm_ptx.h"
#include "ops/jit/plugin/write_loop.h"
#include "ops/jit/plugin_api.h"

namespace xrun::ops {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

Error failure(const std::string& why) {
  return {ErrorKind::kWorld, "XG0821", "functions and updates are interpreted, not compiled: LLVM says: " + why,
          "results are the same, slower; XRUN_JIT=off leaves LLVM out"};
}

Result<std::unique_ptr<llvm::TargetMachine>> target_machine(Isa isa) {
  std::string why;
  const llvm::Target* const target = llvm::TargetRegistry::lookupTarget(kTriple, why);
  if (target == nullptr) {
    return failure(why);
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(
      kTriple, isa >= Isa::kAvx512 ? "x86-64-v4" : "x86-64-v3", isa >= Isa::kAvx512Bf16 ? "+avx512bf16" : "", options,
      llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) {
    return failure("no code can be made for this instruction set");
  }
  return machine;
}

// Compiles a loop to object code.
Result<std::string> compile(const LoopForm& form, Isa isa) {
  XRUN_ASSIGN(const auto machine, target_machine(isa));
  EmittedModule made(*machine);
  write_loop(form, isa, made.module());
  std::string object;
  if (!made.emit(llvm::CodeGenFileType::ObjectFile, object)) {
    return failure(object);
  }
  return object;
}

// The linker of the process. Loops stay loaded until the process ends.
llvm::orc::LLJIT*& linker() {
  static llvm::orc::LLJIT* one = nullptr;
  return one;
}

Result<LoadedLoop> load(std::string_view object) {
  static std::atomic<int> count = 0;
  llvm::orc::LLJIT& jit = *linker();
  auto library = jit.createJITDylib("loop" + std::to_string(count++));
  if (!library) {
    return failure(llvm::toString(library.takeError()));
  }
  auto memory = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()));
  if (auto error = jit.addObjectFile(*library, std::move(memory))) {
    return failure(llvm::toString(std::move(error)));
  }
  auto code = jit.lookup(*library, kLoopSymbol);
  if (!code) {
    return failure(llvm::toString(code.takeError()));
  }
  return LoadedLoop{code->toPtr<LoopCode>()};
}

constexpr JitPlugin kPlugin{
    .compiler = "LLVM " LLVM_VERSION_STRING, .compile = compile, .load = load, .compile_ptx = write_ptx};

}  // namespace

extern "C" [[gnu::visibility("default")]] constinit const char xrun_jit_build[] = XRUN_JIT_BUILD;
// Starts LLVM. Called once, by one thread.
extern "C" [[gnu::visibility("default")]] Result<const JitPlugin*> xrun_open_jit() {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machine = llvm::orc::JITTargetMachineBuilder(llvm::Triple(kTriple));
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(machine)).create();
  if (!jit) {
    return failure(llvm::toString(jit.takeError()));
  }
  linker() = jit->release();
  return &kPlugin;
}

}  // namespace xrun::ops
