// EmittedModule: an LLVM module and its translation to code. It has its own LLVM context, so that threads share no
// data.
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>
#include <string>

namespace xrun::ops {

class EmittedModule {
 public:
  explicit EmittedModule(llvm::TargetMachine& machine);
  EmittedModule(const EmittedModule&) = delete;
  EmittedModule& operator=(const EmittedModule&) = delete;

  llvm::Module& module() { return module_; }
  // Translates the module, once, to an object or to text. Returns false if LLVM reports an error; `out` then has the
  // reason, else the code.
  bool emit(llvm::CodeGenFileType type, std::string& out);

 private:
  std::string fault_;  // set by a handler, without which LLVM would end the process
  llvm::LLVMContext context_;
  llvm::TargetMachine& machine_;
  llvm::Module module_;
};

}  // namespace xrun::ops
