// Tests: tests/gpu_loops/kernels_test.cpp
#include "ops/jit/plugin/llvm_ptx.h"

#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>
#include <memory>

#include "ops/jit/plugin/emitted_module.h"
#include "ops/jit/plugin/write_kernel.h"

// Null if LLVM was built without the back end. The symbol is weak, so that the module can be loaded nevertheless.
extern "C" {
[[gnu::weak]] void LLVMInitializeNVPTXTargetInfo();
[[gnu::weak]] void LLVMInitializeNVPTXTarget();
[[gnu::weak]] void LLVMInitializeNVPTXTargetMC();
[[gnu::weak]] void LLVMInitializeNVPTXAsmPrinter();
}

namespace xrun::ops {
namespace {

constexpr const char* kTriple = "nvptx64-nvidia-cuda";

Error failure(const std::string& why) {
  return {ErrorKind::kWorld, "XG0824", "no kernel of a GPU can be made: LLVM says: " + why,
          "install libllvm19 of Debian, which has the back end for NVPTX"};
}

bool start_back_end() {
  if (LLVMInitializeNVPTXTargetInfo == nullptr || LLVMInitializeNVPTXTarget == nullptr ||
      LLVMInitializeNVPTXTargetMC == nullptr || LLVMInitializeNVPTXAsmPrinter == nullptr) {
    return false;
  }
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  return true;
}

}  // namespace

Result<std::string> write_ptx(const GpuLoop& loop, GpuTarget target) {
  static const bool started = start_back_end();
  std::string why = "it was built without the back end for NVPTX";
  const llvm::Target* const back_end = started ? llvm::TargetRegistry::lookupTarget(kTriple, why) : nullptr;
  if (back_end == nullptr) {
    return failure(why);
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // additions and multiplications get `.rn`, and are never fused
  const std::unique_ptr<llvm::TargetMachine> machine(back_end->createTargetMachine(
      kTriple, name_of(target), "", options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) {
    return failure("no code can be made for " + std::string(name_of(target)));
  }
  EmittedModule made(*machine);
  write_kernel(loop, made.module());
  std::string text;
  if (!made.emit(llvm::CodeGenFileType::AssemblyFile, text)) {
    return failure(text);
  }
  return text;
}

}  // namespace xrun::ops
