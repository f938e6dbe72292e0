// A file of which any part can be read at any time. The parts are read into memory of the caller. The file is not
// mapped: if a mapped file becomes shorter, or its disk fails, an access to it ends the process.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// An open regular file, or bytes in memory. Any number of threads may read at once.
class RandomFile {
 public:
  // Opens a file; links are followed. Errors: XG0401.
  static Result<RandomFile> open(const std::string& path);
  // Reads from `bytes`, which must outlive the object; `name` is for messages.
  static RandomFile in_memory(std::span<const std::byte> bytes, std::string name);

  RandomFile(RandomFile&& other) noexcept;
  RandomFile& operator=(RandomFile&& other) noexcept;
  ~RandomFile();

  const std::string& path() const { return path_; }
  Bytes size() const { return size_; }  // when the file was opened

  // Fills `to` with the bytes from `offset` on. Errors: XG0401 the system cannot read them; XG0412 the file ends
  // before.
  Status read(Bytes offset, std::span<std::byte> to) const;

 private:
  RandomFile() = default;

  std::string path_;
  int file_ = -1;  // -1: in memory
  std::span<const std::byte> bytes_;
  Bytes size_ = 0;
};

}  // namespace xrun::runtime
