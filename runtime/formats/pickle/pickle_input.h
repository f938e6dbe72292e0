// The bytes that a pickle is read from, at any offset: a file, or memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Threads: any number may read at once.
class PickleInput {
 public:
  virtual ~PickleInput() = default;

  virtual const std::string& name() const = 0;  // path of the file, for messages
  virtual Bytes bytes() const = 0;
  // Reads the bytes [offset, offset + to.size()). REQUIRES: they are within bytes(). Errors: XG0412 the file has become
  // shorter; XG0401 it cannot be read.
  virtual Status read(Bytes offset, std::span<std::byte> to) const = 0;
};

// An ordinary file, which stays open. Only what is read is in memory. Errors: XG0401.
Result<std::unique_ptr<PickleInput>> open_pickle_file(const std::string& path);

// Memory, which must outlive the input: a member of an archive, or a test.
std::unique_ptr<PickleInput> pickle_in_memory(std::string name, std::span<const std::byte> bytes);

// The error XG0412 for a damaged pickle: "lfw.bin: offset 12: why".
Error damaged_pickle(std::string_view file, Bytes offset, std::string_view why);

}  // namespace xrun::runtime
