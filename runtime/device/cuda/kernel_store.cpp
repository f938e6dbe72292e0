#include "runtime/device/cuda/kernel_store.h"

#include "ops/gpu/kernel_texts.h"

namespace xrun::cuda {

// Loads machine code if the program has some for this GPU. A driver that cannot load it compiles the text.
Result<std::unique_ptr<KernelModule>> KernelStore::load(std::string_view text, const std::string& name) const {
  const std::string_view code = ops::gpu::machine_code(text, context_.capability());
  if (!code.empty()) {
    auto module = KernelModule::load(context_, name, std::string(code));
    if (module.ok()) {
      return module;
    }
  }
  return KernelModule::load(context_, name, std::string(text));
}

Result<Kernel> KernelStore::find(std::string_view text, const std::string& name, uint32_t shared_bytes) {
  auto at = modules_.find(text);
  if (at == modules_.end()) {
    XRUN_ASSIGN(auto module, load(text, name));
    at = modules_.emplace(std::string(text), Loaded{.module = std::move(module), .kernels = {}}).first;
  }
  Loaded& loaded = at->second;
  const auto known = loaded.kernels.find(name);
  if (known != loaded.kernels.end() && known->second.second >= shared_bytes) {
    return known->second.first;
  }
  XRUN_ASSIGN(Kernel kernel, loaded.module->find(name, shared_bytes));
  loaded.kernels[name] = {kernel, shared_bytes};
  return kernel;
}

}  // namespace xrun::cuda
