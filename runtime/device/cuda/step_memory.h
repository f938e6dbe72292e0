// Memory of a GPU outside of the plan's arena: the words in which kernels note values that are not finite, and tables
// that the backend makes when it binds a program. A plan does not count it, like the driver's own memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/cuda/driver/gpu_memory.h"
#include "runtime/device/cuda/driver/stream.h"

namespace xrun::cuda {

// A table in memory of the GPU, with the page-locked memory of the host from which it is copied.
class HostTable {
 public:
  // Errors: kWorld, with XG0854 if there is not enough memory.
  static Result<std::unique_ptr<HostTable>> make(const Context& context, Bytes bytes);

  // The bytes that the host writes. REQUIRES: no copy of them is under way.
  std::span<std::byte> host() const { return host_->bytes(); }
  CUdeviceptr address() const { return memory_->address(); }
  // Queues the copy to the GPU.
  Status copy(Stream& stream) const { return stream.copy_in(memory_->address(), host_->bytes()); }
  // Copies the table to the GPU, and waits for the end.
  Status copy_now() const { return memory_->write(0, host_->bytes()); }

 private:
  HostTable(std::unique_ptr<GpuMemory> memory, std::unique_ptr<PinnedMemory> host)
      : memory_(std::move(memory)), host_(std::move(host)) {}

  std::unique_ptr<GpuMemory> memory_;
  std::unique_ptr<PinnedMemory> host_;
};

// Threads: one at a time.
class StepMemory {
 public:
  // Allocates the flag words: one that all kernels share and that updates read, and `watched` more, one for each value
  // that is watched. The context is current in the calling thread and outlives the memory. Errors: kWorld.
  static Result<std::unique_ptr<StepMemory>> make(const Context& context, int64_t watched);

  // The flag word that all kernels share (GpuCall::flags). Updates change no weight if it is not 0.
  CUdeviceptr flags() const { return words_->address(); }
  // The word of a watched value. REQUIRES: 0 <= i < watched.
  CUdeviceptr flags_of(int64_t i) const { return words_->address() + static_cast<CUdeviceptr>(4 * (i + 1)); }

  // Allocates zeroed bytes, which are freed with this object. Errors: kWorld.
  Result<CUdeviceptr> allocate(Bytes bytes);
  // Likewise for a copy of `bytes`, which are not empty.
  Result<CUdeviceptr> store(std::span<const std::byte> bytes);

  // Reads all flag words, the shared one first. REQUIRES: the work of the step has ended.
  Result<std::vector<uint32_t>> read_flags() const;
  // Sets all flag words to 0. REQUIRES: likewise.
  Status clear_flags();

 private:
  StepMemory(const Context& context, int64_t words) : context_(context), count_(words) {}

  const Context& context_;
  int64_t count_;
  std::unique_ptr<GpuMemory> words_;
  std::vector<std::unique_ptr<GpuMemory>> more_;
};

}  // namespace xrun::cuda
