// The header of a binary file: lines of text, their digest, and zeros up to a fixed length.
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

// Makes a header of `bytes` bytes from `lines`, each of which ends with a line feed. REQUIRES: `bytes` exceeds the size
// of the lines by at least 40.
std::string seal(std::string lines, size_t bytes);

// The lines of a header; nullopt if any byte of it has changed.
std::optional<std::string_view> unseal(std::span<const std::byte> header);

// The version of the format: the number after "xrun KIND " at the start of the header, or 0 if there is no number.
// Nullopt if the file is of another kind.
std::optional<int64_t> version_of(std::span<const std::byte> header, std::string_view kind);

// Reads lines of the form "key value" in order. It reports no errors: for a line with another key it returns an empty
// value, for text that is no number 0. The caller detects both by comparing the text with a print of the values.
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
