// The primary context of a GPU, which CUDA's own libraries share.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/device/cuda/driver/driver_table.h"

namespace xrun::cuda {

struct MemoryInfo {
  Bytes free = 0;
  Bytes total = 0;
};

// Memory, streams, events and modules belong to a context and must be destroyed before it. Their functions need a
// context that is current in the calling thread; their destructors make it current. Threads: any.
class Context {
 public:
  // Retains the primary context of the GPU with this number and makes it current in the calling thread. REQUIRES: the
  // table outlives the context. Errors: kWorld.
  static Result<std::unique_ptr<Context>> open(const DriverTable& driver, int gpu);
  // Waits for all work and releases the context. The calling thread has no current context then.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Makes the context current in the calling thread, for all its later calls.
  Status make_current() const;
  // Waits until all work of the context has ended. Errors: also those of the work.
  Status synchronise() const;
  // Returns the free and the total memory of the GPU.
  Result<MemoryInfo> memory() const;

  const DriverTable& driver() const { return driver_; }
  int gpu() const { return gpu_; }
  // The compute capability of the GPU, for example 90.
  int capability() const { return capability_; }
  CUcontext handle() const { return handle_; }
  // The status of a driver call that was made for `purpose`: "allocating 3.0 GiB".
  Status check(CUresult result, std::string_view symbol, std::string_view purpose) const;

 private:
  Context(const DriverTable& driver, int gpu, CUdevice device, int capability, CUcontext handle)
      : driver_(driver), gpu_(gpu), device_(device), capability_(capability), handle_(handle) {}

  const DriverTable& driver_;
  int gpu_;
  CUdevice device_;
  int capability_;
  CUcontext handle_;
};

// Returns the compute capability of a GPU, for example 90. Errors: kWorld; `place` begins the message.
Result<int> capability_of(const DriverTable& driver, CUdevice device, const std::string& place);

}  // namespace xrun::cuda
