#include "runtime/checkpoint/class_rows/file_mapping.h"

#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

namespace xrun::runtime {
namespace {

// Rows that are at most this far apart share a request: reading the bytes between them takes less time than another
// request to the disk.
constexpr uintptr_t kGap = 16 * kKiB;

}  // namespace

Bytes page_bytes() {
  static const Bytes bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

FileMapping::FileMapping(int file, Bytes bytes)
    : bytes_(static_cast<size_t>(bytes)),
      base_(::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)),
      fault_(base_ == MAP_FAILED ? errno : 0) {
  if (fault_ == 0) {
    ::madvise(base_, bytes_, MADV_RANDOM);
  }
}

FileMapping::~FileMapping() {
  if (fault_ == 0) {
    ::munmap(base_, bytes_);
  }
}

void ask_for_rows(const std::byte* base, Bytes row_bytes, std::span<const int32_t> rows) {
  const auto page = static_cast<uintptr_t>(page_bytes());
  uintptr_t begin = 0;
  uintptr_t end = 0;
  const auto ask = [&] {
    if (begin < end) {  // errors are ignored, since the rows can also be read without this hint
      ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_WILLNEED);
    }
  };
  for (const int32_t row : rows) {
    const auto first = reinterpret_cast<uintptr_t>(base + row * row_bytes);
    if (first > end + kGap) {
      ask();
      begin = first / page * page;
    }
    end = (first + static_cast<uintptr_t>(row_bytes) + page - 1) / page * page;
  }
  ask();
}

}  // namespace xrun::runtime
