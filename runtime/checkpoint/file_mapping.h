// Files that are read and written as memory, and hints to the system which of their pages will be used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/base/units.h"

namespace xrun::runtime {

Bytes page_bytes();

// A whole file for as long as it lives. Pages are read one by one unless they were asked for.
class FileMapping {
 public:
  FileMapping(int file, Bytes bytes);
  FileMapping(FileMapping&&) = delete;
  ~FileMapping();

  int fault() const { return fault_; }  // the errno where the system does not map it
  std::byte* at(Bytes offset) const { return static_cast<std::byte*>(base_) + offset; }

 private:
  size_t bytes_;
  void* base_;
  int fault_;
};

// Asks for the pages of `rows`, ascending, of an array that is mapped from `base` on, and waits for none: a request for
// each run of rows that lie close together.
void ask_for_rows(const std::byte* base, Bytes row_bytes, std::span<const int32_t> rows);

}  // namespace xrun::runtime
