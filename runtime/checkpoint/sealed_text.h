// The header of a binary file of ours: lines of text, their digest, and zeros up to a fixed length.
//
//   xrun undo 1
//   step 400
//   digest 9f0c6d1be7a84f2c0b5d3e8a71c4f693
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace xrun::runtime {

// `lines`, each of which ends with a line feed, as a header of `bytes` bytes. REQUIRES: they fit, with 40 bytes more.
std::string seal(std::string lines, size_t bytes);

// The lines of a header; none where any byte of it has changed.
std::optional<std::string_view> unseal(std::span<const std::byte> header);

// The number behind "xrun KIND ", with which the first line begins; none where the file is of another kind.
std::optional<int64_t> version_of(std::span<const std::byte> header, std::string_view kind);

// Reads "key value" lines in their order. A line of another key, and a number that is none, give an empty value and 0:
// the caller prints what it has read and compares texts.
class LineReader {
 public:
  explicit LineReader(std::string_view lines) : rest_(lines) {}

  std::string_view text(std::string_view key);
  int64_t number(std::string_view key) { return to_number(text(key)); }
  bool has(std::string_view key) const;

  static int64_t to_number(std::string_view text);

 private:
  std::string_view rest_;
};

}  // namespace xrun::runtime
