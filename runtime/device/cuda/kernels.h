// Modules of kernels, and their launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/base/result.h"
#include "runtime/device/cuda/stream.h"

namespace xrun::cuda {

// The arguments of a launch, laid out like the parameters of a kernel: each at a multiple of its size. A launch passes
// their size in bytes, so the driver refuses arguments of another size than the parameters.
class Arguments {
 public:
  template <class... Values>
  explicit Arguments(const Values&... values) {
    (add(values), ...);
  }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class Value>
  void add(const Value& value) {
    static_assert(std::is_arithmetic_v<Value>, "a kernel takes numbers and device addresses");
    const size_t begin = (bytes_.size() + sizeof(Value) - 1) / sizeof(Value) * sizeof(Value);
    bytes_.resize(begin + sizeof(Value));
    std::memcpy(bytes_.data() + begin, &value, sizeof(Value));
  }

  std::vector<std::byte> bytes_;
};

struct Grid {
  std::array<uint32_t, 3> blocks{1, 1, 1};
  std::array<uint32_t, 3> threads{1, 1, 1};  // in each block
  uint32_t shared_bytes = 0;                 // dynamic shared memory of a block
};

// A kernel of a module. REQUIRES: the module outlives it.
struct Kernel {
  CUfunction handle = nullptr;
  std::string name;
};

// Kernels that were loaded into a context. The destructor unloads them. REQUIRES: all launches have ended before.
class Module {
 public:
  // Loads a PTX text, which the driver compiles, or a fatbin. Messages contain `name`. Errors: kWorld, for example with
  // XG0855 and the log of the driver's compiler.
  static Result<std::unique_ptr<Module>> load(const Context& context, const std::string& name,
                                              const std::string& image);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Finds a kernel, and allows its blocks up to `shared_bytes` of dynamic shared memory. Errors: kWorld.
  Result<Kernel> find(const std::string& kernel, uint32_t shared_bytes = 0) const;

 private:
  Module(const Context& context, CUmodule handle, std::string name)
      : context_(context), handle_(handle), name_(std::move(name)) {}

  const Context& context_;
  CUmodule handle_;
  std::string name_;
};

// Queues a launch of a kernel in a stream. Errors: kWorld.
Status launch(const Kernel& kernel, const Grid& grid, const Arguments& arguments, const Stream& stream);

}  // namespace xrun::cuda
