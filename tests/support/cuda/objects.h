// The objects that handles of the fake driver point to, and the work of its streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda/driver/driver_types.h"
#include "tests/support/cuda/access_log.h"
#include "tests/support/ptx/launch.h"

namespace xrun::cuda::fake {

struct Stream;

// A use of page-locked memory by a copy. Until the host has waited for the copy, it must not write the bytes, or must
// not access them at all if the copy writes them.
struct HostUse {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  bool writes = false;
  size_t actor = 0;
  uint64_t time = 0;  // 0: the copy has not run
  std::string what;
};

// The point of a stream that an event has recorded.
struct Recording {
  Stream* stream = nullptr;
  bool ended = false;
  Clock clock;
  uint64_t at = 0;  // number of operations that the driver had run
};

struct LoadedModule {
  std::string name;  // "module 1"
  int gpu = 0;
  bool alive = true;
  std::unique_ptr<const ptx::Module> ptx;
};

struct Function {
  LoadedModule* module = nullptr;
  const ptx::Kernel* kernel = nullptr;
  uint64_t most_shared = 48 * 1024;  // the most bytes of dynamic shared memory of a launch
};

struct Operation {
  enum class Kind { kCopyIn, kCopyOut, kCopy, kFill, kKernel, kCall, kRecord, kWait };
  Kind kind = Kind::kCall;
  std::string symbol;
  Clock enqueued;  // clock of the host when it was queued
  CUdeviceptr to = 0;
  CUdeviceptr from = 0;
  std::byte* host = nullptr;  // for kCopyIn and kCopyOut
  uint64_t bytes = 0;
  std::byte value{};
  std::shared_ptr<HostUse> use;
  std::vector<std::byte> staged;  // the values of a copy from pageable memory
  Function* function = nullptr;
  ptx::Launch launch;
  CUhostFn call = nullptr;
  void* user_data = nullptr;
  std::shared_ptr<Recording> recording;
};

struct Stream {
  std::string name;  // "stream 1"
  int gpu = 0;
  size_t actor = 0;
  bool alive = true;
  bool busy = false;  // a thread runs a function of the host
  Clock clock;
  std::deque<Operation> queue;
};

struct Event {
  std::string name;
  int gpu = 0;
  bool alive = true;
  bool timing = true;
  std::shared_ptr<Recording> recording;
};

struct GpuBuffer {
  std::string name;  // "buffer 1"
  int gpu = 0;
  CUdeviceptr address = 0;
  uint64_t bytes = 0;
  bool alive = true;
};

}  // namespace xrun::cuda::fake
