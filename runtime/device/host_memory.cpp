#include "runtime/device/host_memory.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

#include "graph/layouts/rows_layout.h"

namespace xrun::runtime {

Result<HostMemory> HostMemory::map(Bytes bytes, Bytes behind) {
  HostMemory arena;
  bytes = behind == 0 ? bytes : align_up(bytes, kMappedAlignment) + behind;
  if (bytes == 0) {
    return arena;
  }
  // With MAP_NORESERVE, address space over which files will be mapped reserves no memory.
  const int promise = behind > 0 ? MAP_NORESERVE : 0;
  void* base =
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | promise, -1, 0);
  if (base == MAP_FAILED) {
    return Error{ErrorKind::kWorld, "XG0801",
                 "the system refuses a mapping of " + format_bytes(bytes) + ": " + std::strerror(errno),
                 "free memory, or plan for less of it with `schedule.memory_limit`"};
  }
  // Errors are ignored: without huge pages everything works, but more slowly.
  (void)madvise(base, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  arena.base_ = static_cast<std::byte*>(base);
  arena.bytes_ = bytes;
  return arena;
}

HostMemory::~HostMemory() {
  if (base_ != nullptr) {
    munmap(base_, static_cast<size_t>(bytes_));
  }
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace xrun::runtime
