// Tests: tests/runtime/formats/pickle/pickle_test.cpp
#include "runtime/formats/pickle/pickle_cursor.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace xrun::runtime {

Result<size_t> PickleCursor::fill(Bytes offset) {
  if (offset < start_ || offset >= start_ + static_cast<Bytes>(held_)) {
    held_ = 0;
    start_ = offset;
    const auto size = static_cast<size_t>(std::clamp<Bytes>(input_.bytes() - offset, 0, std::ssize(window_)));
    XRUN_TRY(input_.read(offset, std::span(window_).first(size)));
    held_ = size;
  }
  return held_ - static_cast<size_t>(offset - start_);
}

Result<uint64_t> PickleCursor::number(size_t bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i, ++offset_) {
    XRUN_ASSIGN(const size_t left, fill(offset_));
    if (left == 0) {
      return damaged_pickle(input_.name(), offset_, "the file ends within the pickle");
    }
    value |= std::to_integer<uint64_t>(*at(offset_)) << (8 * i);
  }
  return value;
}

Result<PickleString> PickleCursor::skip(uint64_t bytes) {
  const auto left = static_cast<uint64_t>(input_.bytes() - offset_);
  if (bytes > left) {
    return damaged_pickle(input_.name(), offset_,
                          fmt::format("a string has {} bytes, but the file ends after {}", bytes, left));
  }
  const PickleString string{.offset = offset_, .size = static_cast<Bytes>(bytes)};
  offset_ += string.size;
  return string;
}

Result<PickleString> PickleCursor::skip_line() {
  PickleString string{.offset = offset_};
  for (;;) {
    XRUN_ASSIGN(const size_t left, fill(offset_));
    if (left == 0) {
      return damaged_pickle(input_.name(), string.offset, "the file ends within a line");
    }
    const auto* const end = static_cast<const std::byte*>(std::memchr(at(offset_), '\n', left));
    if (end != nullptr) {
      offset_ += end - at(offset_);
      string.size = offset_++ - string.offset;
      return string;
    }
    offset_ += static_cast<Bytes>(left);
  }
}

Result<std::string> PickleCursor::line(std::string_view of) {
  XRUN_ASSIGN(const PickleString place, skip_line());
  if (place.size > kMostLine) {
    return damaged_pickle(input_.name(), place.offset, fmt::format("the line of {} has {} bytes", of, place.size));
  }
  return read_pickle_text(input_, place);
}

}  // namespace xrun::runtime
