// Tests: tests/cuda/wrappers_test.cpp
#include "runtime/device/cuda/driver/gpu_memory.h"

#include <fmt/format.h>

#include "graph/base/check.h"

namespace xrun::cuda {

Result<std::unique_ptr<GpuMemory>> GpuMemory::allocate(const Context& context, Bytes bytes) {
  CUdeviceptr address = 0;
  XRUN_TRY(context.check(context.driver().cuMemAlloc_v2(&address, static_cast<size_t>(bytes)), "cuMemAlloc_v2",
                         fmt::format("allocating {}", format_bytes(bytes))));
  return std::unique_ptr<GpuMemory>(new GpuMemory(context, address, bytes));
}

GpuMemory::~GpuMemory() {
  if (context_.make_current().ok()) {
    context_.driver().cuMemFree_v2(address_);
  }
}

Status GpuMemory::write(Bytes offset, std::span<const std::byte> from) {
  XRUN_CHECK(offset >= 0 && static_cast<size_t>(offset) + from.size() <= static_cast<size_t>(bytes_), "outside");
  const DriverTable& driver = context_.driver();
  XRUN_TRY(context_.check(driver.cuMemcpyHtoD_v2(address_ + static_cast<CUdeviceptr>(offset), from.data(), from.size()),
                          "cuMemcpyHtoD_v2", "copying to its memory"));
  // The copy from pageable memory may still run in the default stream, for which no other stream waits. Source: CUDA
  // Driver API, "API synchronization behavior".
  return context_.check(driver.cuStreamSynchronize(nullptr), "cuStreamSynchronize", "copying to its memory");
}

Status GpuMemory::read(Bytes offset, std::span<std::byte> to) const {
  XRUN_CHECK(offset >= 0 && static_cast<size_t>(offset) + to.size() <= static_cast<size_t>(bytes_), "outside");
  return context_.check(
      context_.driver().cuMemcpyDtoH_v2(to.data(), address_ + static_cast<CUdeviceptr>(offset), to.size()),
      "cuMemcpyDtoH_v2", "copying from its memory");
}

Result<std::unique_ptr<PinnedMemory>> PinnedMemory::allocate(const Context& context, Bytes bytes) {
  void* address = nullptr;
  XRUN_TRY(
      context.check(context.driver().cuMemHostAlloc(&address, static_cast<size_t>(bytes), CU_MEMHOSTALLOC_PORTABLE),
                    "cuMemHostAlloc", fmt::format("locking {} of the host's memory", format_bytes(bytes))));
  return std::unique_ptr<PinnedMemory>(
      new PinnedMemory(context, {static_cast<std::byte*>(address), static_cast<size_t>(bytes)}));
}

PinnedMemory::~PinnedMemory() {
  if (context_.make_current().ok()) {
    context_.driver().cuMemFreeHost(bytes_.data());
  }
}

}  // namespace xrun::cuda
