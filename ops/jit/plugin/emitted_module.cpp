#include "ops/jit/plugin/emitted_module.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>

namespace xrun::ops {

EmittedModule::EmittedModule(llvm::TargetMachine& machine) : machine_(machine), module_("loop", context_) {
  context_.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* to) {
        if (info->getSeverity() == llvm::DS_Error) {
          llvm::raw_string_ostream out(*static_cast<std::string*>(to));
          llvm::DiagnosticPrinterRawOStream printer(out);
          info->print(printer);
        }
      },
      &fault_);
  module_.setTargetTriple(machine.getTargetTriple().str());
  module_.setDataLayout(machine.createDataLayout());
}

bool EmittedModule::emit(llvm::CodeGenFileType type, std::string& out) {
  std::string why;
  llvm::raw_string_ostream reasons(why);
  if (llvm::verifyModule(module_, &reasons)) {
    out = why;
    return false;
  }
  llvm::SmallString<4096> code;
  llvm::raw_svector_ostream to(code);
  llvm::legacy::PassManager passes;
  if (machine_.addPassesToEmitFile(passes, to, nullptr, type)) {
    out = "it cannot write this kind of code";
    return false;
  }
  passes.run(module_);
  out = fault_.empty() ? std::string(code) : fault_;
  return fault_.empty();
}

}  // namespace xrun::ops
