// The kernels of one GPU, loaded once for each text.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "graph/base/result.h"
#include "runtime/device/cuda/driver/kernels.h"

namespace xrun::cuda {

// Threads: one at a time. The kernels may be launched by any thread.
class KernelStore {
 public:
  // The context outlives the store.
  explicit KernelStore(const Context& context) : context_(context) {}

  // Returns a kernel of a PTX text, whose module is loaded at the first call with an equal text. The kernel is valid
  // while the store exists. REQUIRES: the context is current. Errors: kWorld (kernels.h).
  Result<Kernel> find(std::string_view text, const std::string& name, uint32_t shared_bytes);

  // Number of modules that are loaded.
  size_t modules() const { return modules_.size(); }

 private:
  struct Loaded {
    std::unique_ptr<KernelModule> module;
    std::map<std::string, std::pair<Kernel, uint32_t>> kernels;  // with the dynamic shared memory they were found for
  };

  Result<std::unique_ptr<KernelModule>> load(std::string_view text, const std::string& name) const;

  const Context& context_;
  std::map<std::string, Loaded, std::less<>> modules_;  // key: text
};

}  // namespace xrun::cuda
