// Tests: tests/cuda/cuda_devices_test.cpp
#include "runtime/device/cuda/cuda_memory.h"

#include <algorithm>
#include <utility>

#include "graph/base/check.h"

namespace xrun::cuda {

Result<std::unique_ptr<CudaMemory>> CudaMemory::map(const Context& context, StreamWorker& exchanges, Bytes bytes) {
  std::unique_ptr<CudaMemory> memory(new CudaMemory(context, exchanges));
  if (bytes == 0) {  // the driver allocates no memory of zero bytes
    return memory;
  }
  XRUN_TRY(context.make_current());
  XRUN_ASSIGN(memory->fills_, Stream::make(context));
  XRUN_ASSIGN(memory->memory_, GpuMemory::allocate(context, bytes));
  memory->fill(0, bytes, std::byte{0});
  XRUN_TRY(memory->status());
  return memory;
}

void CudaMemory::read(Bytes offset, std::span<std::byte> out) const {
  if (!out.empty()) {
    Status status = context_.make_current();
    note(status.ok() ? memory_->read(offset, out) : std::move(status));
  }
}

void CudaMemory::write(Bytes offset, std::span<const std::byte> in) {
  if (!in.empty()) {
    Status status = context_.make_current();
    note(status.ok() ? memory_->write(offset, in) : std::move(status));
  }
}

void CudaMemory::fill(Bytes offset, Bytes bytes, std::byte value) {
  const auto run = [&]() -> Status {
    XRUN_TRY(context_.make_current());
    XRUN_TRY(fills_->fill(address(offset), value, bytes));
    return fills_->synchronise();
  };
  if (bytes > 0) {
    note(run());
  }
}

void CudaMemory::copy_from(const DeviceMemory& from, Bytes from_offset, Bytes offset, Bytes bytes,
                           runtime::CopyDone done) {
  const auto& other = static_cast<const CudaMemory&>(from);
  const auto run = [&]() -> Status {
    Stream& stream = exchanges_.stream();
    return other.context_.gpu() == context_.gpu()
               ? stream.copy(address(offset), other.address(from_offset), bytes)
               : stream.copy_from_peer(address(offset), other.context_, other.address(from_offset), bytes);
  };
  Status status = bytes > 0 ? run() : Status();
  if (bytes == 0 || !status.ok()) {
    done.done(done.context, std::move(status));
    return;
  }
  exchanges_.when_ended(done);
}

Status CudaMemory::status() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

std::byte* CudaMemory::kernel_address(Bytes offset) const { return reinterpret_cast<std::byte*>(address(offset)); }

CUdeviceptr CudaMemory::address(Bytes offset) const {
  XRUN_CHECK(offset >= 0 && offset <= bytes(), "an address outside of the memory");
  return memory_ == nullptr ? 0 : memory_->address() + static_cast<CUdeviceptr>(offset);
}

void CudaMemory::note(Status status) const {
  const std::lock_guard lock(mutex_);
  if (!status.ok() && error_.ok()) {
    error_ = std::move(status);
  }
}

Result<std::unique_ptr<runtime::HostArena>> PinnedArena::map(const Context& context, Bytes bytes) {
  std::unique_ptr<PinnedMemory> memory;
  if (bytes > 0) {
    XRUN_TRY(context.make_current());
    XRUN_ASSIGN(memory, PinnedMemory::allocate(context, bytes));
    std::ranges::fill(memory->bytes(), std::byte{0});
  }
  return std::unique_ptr<runtime::HostArena>(new PinnedArena(std::move(memory)));
}

std::byte* PinnedArena::at(Bytes offset) const {
  XRUN_CHECK(offset >= 0 && offset <= bytes(), "an address outside of the arena");
  return memory_ == nullptr ? nullptr : memory_->bytes().data() + offset;
}

}  // namespace xrun::cuda
