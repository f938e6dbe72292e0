// Reads a pickle's instructions from front to back through a small window, and skips the strings between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/formats/pickle/pickle_input.h"
#include "runtime/formats/pickle/pickle_string.h"

namespace xrun::runtime {

class PickleCursor {
 public:
  PickleCursor(const PickleInput& input, Bytes offset) : input_(input), offset_(offset) {}

  Bytes offset() const { return offset_; }

  // Each reads at the offset and moves it behind what was read. Errors: XG0412 the file ends before that; those of the
  // input.
  Result<uint64_t> number(size_t bytes);          // little-endian, 1 to 8 bytes
  Result<PickleString> skip(uint64_t bytes);      // the place of the next bytes, which are not read
  Result<PickleString> skip_line();               // the place of the bytes up to a line feed, without it
  Result<std::string> line(std::string_view of);  // a short line; XG0412 if it is longer than kMostLine

  static constexpr Bytes kMostLine = 1024;

 private:
  // Makes the window hold the byte at `offset`. Returns the number of bytes from there on; 0 at the end of the file.
  Result<size_t> fill(Bytes offset);
  const std::byte* at(Bytes offset) const { return window_.data() + (offset - start_); }

  const PickleInput& input_;
  Bytes offset_;
  Bytes start_ = 0;  // the window holds the bytes [start_, start_ + held_)
  size_t held_ = 0;
  // One page: pictures are larger, so that a larger window would mostly hold bytes that are skipped.
  std::array<std::byte, 4096> window_;
};

}  // namespace xrun::runtime
