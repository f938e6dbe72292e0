// Modules of kernels, and their launches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "graph/base/result.h"
#include "runtime/device/cuda/driver/stream.h"

namespace xrun::cuda {

// The arguments of a launch, laid out like the parameters of a kernel: each at a multiple of its size. A launch passes
// their size in bytes, so the driver refuses arguments of another size than the parameters.
class Arguments {
 public:
  Arguments() = default;
  template <class Value, class... Values>
  explicit Arguments(const Value& value, const Values&... values) {
    add(value);
    (add(values), ...);
  }

  // Appends the lowest `size` bytes of `bits`, and returns their place. REQUIRES: `size` is 4 or 8.
  size_t append(uint64_t bits, size_t size) {
    const size_t begin = (bytes_.size() + size - 1) / size * size;
    bytes_.resize(begin + size);
    set(begin, bits, size);
    return begin;
  }
  // Changes an argument. REQUIRES: `append` has returned `begin` for this size.
  void set(size_t begin, uint64_t bits, size_t size) { std::memcpy(bytes_.data() + begin, &bits, size); }

  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  template <class Value>
  void add(const Value& value) {
    static_assert(std::is_arithmetic_v<Value> && sizeof(Value) >= 4, "a kernel takes numbers and device addresses");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(Value));
    append(bits, sizeof(Value));
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
class KernelModule {
 public:
  // Loads a PTX text, which the driver compiles, or a fatbin. Messages contain `name`. Errors: kWorld, for example with
  // XG0855 and the log of the driver's compiler.
  static Result<std::unique_ptr<KernelModule>> load(const Context& context, const std::string& name,
                                                    const std::string& image);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  // Finds a kernel, and allows its blocks up to `shared_bytes` of dynamic shared memory. Errors: kWorld.
  Result<Kernel> find(const std::string& kernel, uint32_t shared_bytes = 0) const;

 private:
  KernelModule(const Context& context, CUmodule handle, std::string name)
      : context_(context), handle_(handle), name_(std::move(name)) {}

  const Context& context_;
  CUmodule handle_;
  std::string name_;
};

// Queues a launch of a kernel in a stream. Errors: kWorld.
Status launch(const Kernel& kernel, const Grid& grid, const Arguments& arguments, const Stream& stream);

}  // namespace xrun::cuda
