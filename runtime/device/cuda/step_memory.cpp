#include "runtime/device/cuda/step_memory.h"

#include <algorithm>

namespace xrun::cuda {

Result<std::unique_ptr<HostTable>> HostTable::make(const Context& context, Bytes bytes) {
  XRUN_ASSIGN(auto memory, GpuMemory::allocate(context, bytes));
  XRUN_ASSIGN(auto host, PinnedMemory::allocate(context, bytes));
  std::ranges::fill(host->bytes(), std::byte{0});
  return std::unique_ptr<HostTable>(new HostTable(std::move(memory), std::move(host)));
}

Result<std::unique_ptr<StepMemory>> StepMemory::make(const Context& context, int64_t watched) {
  std::unique_ptr<StepMemory> made(new StepMemory(context, watched + 1));
  XRUN_ASSIGN(made->words_, GpuMemory::allocate(context, made->count_ * static_cast<Bytes>(sizeof(uint32_t))));
  XRUN_TRY(made->clear_flags());
  return made;
}

Result<CUdeviceptr> StepMemory::allocate(Bytes bytes) {
  return store(std::vector<std::byte>(static_cast<size_t>(bytes)));
}

Result<CUdeviceptr> StepMemory::store(std::span<const std::byte> bytes) {
  XRUN_ASSIGN(auto memory, GpuMemory::allocate(context_, std::ssize(bytes)));
  XRUN_TRY(memory->write(0, bytes));
  more_.push_back(std::move(memory));
  return more_.back()->address();
}

Result<std::vector<uint32_t>> StepMemory::read_flags() const {
  std::vector<uint32_t> words(static_cast<size_t>(count_));
  XRUN_TRY(words_->read(0, std::as_writable_bytes(std::span(words))));
  return words;
}

Status StepMemory::clear_flags() {
  const std::vector<uint32_t> zeros(static_cast<size_t>(count_));
  return words_->write(0, std::as_bytes(std::span(zeros)));
}

}  // namespace xrun::cuda
