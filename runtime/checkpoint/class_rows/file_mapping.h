// Memory-mapped files, and requests to the system to read pages before they are used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/units.h"

namespace xrun::runtime {

Bytes page_bytes();

// Maps a whole file into memory while the object lives. A page is read from the file when it is first accessed, unless
// ask_for_rows has requested it earlier.
class FileMapping {
 public:
  FileMapping(int file, Bytes bytes);
  FileMapping(FileMapping&&) = delete;
  ~FileMapping();

  int fault() const { return fault_; }  // 0, or the error number if the system could not map the file
  std::byte* at(Bytes offset) const { return static_cast<std::byte*>(base_) + offset; }

 private:
  size_t bytes_;
  void* base_;
  int fault_;
};

// Requests the pages of some rows of an array that is mapped at `base`, and does not wait for them. Makes one request
// for each group of rows that lie close together. `rows`: ascending.
void ask_for_rows(const std::byte* base, Bytes row_bytes, std::span<const int32_t> rows);

}  // namespace xrun::runtime
