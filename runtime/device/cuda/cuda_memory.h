// The arena of a GPU, and the arena of the host for programs on GPUs.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "runtime/device/cuda/driver/gpu_memory.h"
#include "runtime/device/cuda/stream_worker.h"
#include "runtime/device/device.h"

namespace xrun::cuda {

// The memory of a GPU for one program. `read`, `write` and `fill` wait until they have ended; no stream orders them, so
// work that accesses the bytes must have ended. kernel_address is an address of the GPU. Threads: those of
// DeviceMemory.
class CudaMemory final : public runtime::DeviceMemory {
 public:
  // Allocates zeroed bytes. Copies from other GPUs run in the stream of `exchanges`, which outlives the memory. Errors:
  // kWorld, with XG0854 if the GPU has not enough memory.
  static Result<std::unique_ptr<CudaMemory>> map(const Context& context, StreamWorker& exchanges, Bytes bytes);

  Bytes bytes() const override { return memory_ == nullptr ? 0 : memory_->bytes(); }
  void read(Bytes offset, std::span<std::byte> out) const override;
  void write(Bytes offset, std::span<const std::byte> in) override;
  void fill(Bytes offset, Bytes bytes, std::byte value) override;
  // REQUIRES: also, called by a task of the stream of exchanges; `from` is a CudaMemory.
  void copy_from(const DeviceMemory& from, Bytes from_offset, Bytes offset, Bytes bytes,
                 runtime::CopyDone done) override;
  Status status() const override;
  std::byte* kernel_address(Bytes offset) const override;

  CUdeviceptr address(Bytes offset) const;

 private:
  CudaMemory(const Context& context, StreamWorker& exchanges) : context_(context), exchanges_(exchanges) {}
  void note(Status status) const;

  const Context& context_;
  StreamWorker& exchanges_;
  std::unique_ptr<Stream> fills_;      // null: no bytes
  std::unique_ptr<GpuMemory> memory_;  // likewise
  mutable std::mutex mutex_;
  mutable Status error_;  // the first error; guarded by mutex_
};

// Page-locked memory of the host, so that streams copy from and to it.
class PinnedArena final : public runtime::HostArena {
 public:
  // Maps zeroed bytes. The context outlives the arena. Errors: kWorld, with XG0854 if the system cannot lock the pages.
  static Result<std::unique_ptr<HostArena>> map(const Context& context, Bytes bytes);

  Bytes bytes() const override { return memory_ == nullptr ? 0 : std::ssize(memory_->bytes()); }
  std::byte* at(Bytes offset) const override;

 private:
  explicit PinnedArena(std::unique_ptr<PinnedMemory> memory) : memory_(std::move(memory)) {}

  std::unique_ptr<PinnedMemory> memory_;  // null: no bytes
};

}  // namespace xrun::cuda
