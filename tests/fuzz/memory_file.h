// A file in memory that has a path, for readers that take the path of a file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "graph/base/check.h"

namespace xrun::test {

class MemoryFile {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : file_(memfd_create("input", MFD_CLOEXEC)) {
    XRUN_CHECK(file_ >= 0, "a file in memory");
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t wrote = ::write(file_, bytes.data() + done, bytes.size() - done);
      XRUN_CHECK(wrote > 0, "a file in memory can be written");
      done += static_cast<size_t>(wrote);
    }
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

}  // namespace xrun::test
