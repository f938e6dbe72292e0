// Memory-mapped files, and hints to the system about the pages that will be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/units.h"

namespace xrun::runtime {

Bytes page_bytes();

// Maps a whole file while the object lives. Pages are read one by one unless ask_for_rows has requested them.
class FileMapping {
 public:
  FileMapping(int file, Bytes bytes);
  FileMapping(FileMapping&&) = delete;
  ~FileMapping();

  int fault() const { return fault_; }  // 0, or the errno if the system could not map the file
  std::byte* at(Bytes offset) const { return static_cast<std::byte*>(base_) + offset; }

 private:
  size_t bytes_;
  void* base_;
  int fault_;
};

// Requests the pages of `rows`, ascending, of an array that is mapped at `base`, without waiting for them: one request
// for each run of rows that lie close together.
void ask_for_rows(const std::byte* base, Bytes row_bytes, std::span<const int32_t> rows);

}  // namespace xrun::runtime
