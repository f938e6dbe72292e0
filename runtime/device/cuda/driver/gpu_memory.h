// Memory of a GPU, and memory of the host that GPUs copy to and from.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/device/cuda/driver/context.h"

namespace xrun::cuda {

// Memory of a GPU. Only kernels and copies access it. The destructor frees it. REQUIRES: all work that accesses it has
// ended before.
class GpuMemory {
 public:
  // Allocates uninitialised bytes. Errors: kWorld with XG0854 if the GPU has not enough memory.
  static Result<std::unique_ptr<GpuMemory>> allocate(const Context& context, Bytes bytes);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  CUdeviceptr address() const { return address_; }
  Bytes bytes() const { return bytes_; }

  // Copy from and to any memory of the host, and wait until the copy has ended. REQUIRES: work of streams that accesses
  // the bytes has ended, since no stream orders these copies.
  Status write(Bytes offset, std::span<const std::byte> from);
  Status read(Bytes offset, std::span<std::byte> to) const;

 private:
  GpuMemory(const Context& context, CUdeviceptr address, Bytes bytes)
      : context_(context), address_(address), bytes_(bytes) {}

  const Context& context_;
  CUdeviceptr address_;
  Bytes bytes_;
};

// Page-locked memory of the host, from and to which streams copy. The destructor frees it. REQUIRES: all work that
// accesses it has ended before.
class PinnedMemory {
 public:
  // Allocates uninitialised bytes. Errors: kWorld with XG0854 if the system cannot lock more pages.
  static Result<std::unique_ptr<PinnedMemory>> allocate(const Context& context, Bytes bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  PinnedMemory(const Context& context, std::span<std::byte> bytes) : context_(context), bytes_(bytes) {}

  const Context& context_;
  std::span<std::byte> bytes_;
};

}  // namespace xrun::cuda
