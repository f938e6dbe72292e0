// Open files, and the errors and limits that are common to readers of files and of archives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>

#include "graph/base/result.h"
#include "graph/base/stop.h"

namespace xrun::runtime {

constexpr size_t kReadChunk = 64 * 1024;

// Whether a file of `packed` bytes is rejected because it unpacks to `unpacked` bytes.
bool unpacks_too_far(uint64_t packed, uint64_t unpacked);

// XG0412: the content of a file is damaged.
Error broken_file(std::string_view path, std::string_view why);

// Opens a regular file for reading; the caller closes it. Errors: XG0401.
Result<int> open_ordinary(const std::string& path);

class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile() { ::close(file_); }
  OpenFile(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

// Reads once into `to`; returns 0 at the end of the file. An interrupting signal has no effect unless a stop is
// requested. Errors: XG0401, kInterrupted.
Result<size_t> read_some(int file, const std::string& path, std::span<std::byte> to, StopFlag stop);

}  // namespace xrun::runtime
