// The text of an open document, and positions in it: lines from 0 and UTF-16 code units, as the protocol counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/source.h"
#include "runtime/lsp/json_rpc.h"

namespace xrun::lsp {

// A text with the starts of its lines, which end at "\n", "\r\n" or "\r".
class LineMap {
 public:
  explicit LineMap(std::string_view text);

  // Converts a byte offset to {"line": 3, "character": 7}. An offset inside a character counts as the character's
  // start.
  Json position(uint32_t offset) const;
  Json range(uint32_t begin, uint32_t end) const;
  Json range(const Span& span) const { return range(span.begin, span.end); }
  uint32_t line_of(uint32_t offset) const;
  uint32_t column(uint32_t offset) const;  // number of UTF-16 code units before the offset in its line
  // Converts a position to a byte offset. As in the protocol, a character beyond the end of its line means the end of
  // the line, and the line after the last one means the end of the text. Throws Failure for any later line.
  uint32_t offset(const Json& position) const;

  uint32_t lines() const { return static_cast<uint32_t>(starts_.size()); }
  std::string_view text() const { return text_; }

 private:
  // Marks a character with the number of UTF-16 code units before it. One mark per KiB makes columns of long lines
  // fast.
  struct Mark {
    uint32_t offset = 0;
    uint32_t units = 0;
  };
  static constexpr size_t kBetweenMarks = 1024;

  uint32_t end_of_line(uint32_t line) const;  // the offset just before the line break
  uint32_t units_before(uint32_t offset) const;

  std::string_view text_;
  std::vector<uint32_t> starts_;
  std::vector<Mark> marks_;
};

// Number of UTF-16 code units of UTF-8 text. A byte that belongs to no character counts as one.
uint32_t utf16_length(std::string_view text);

// Applies the changes of `textDocument/didChange`, each to a range or to the whole text, and returns the new text.
// Throws Failure, and leaves the text as it was, if a change is outside the text or the text gets longer than
// kMostText.
inline constexpr size_t kMostText = size_t{8} << 20;
std::string changed(std::string text, const Json& changes);

// The string, number or object of `value` under `key`. Throws Failure with kInvalidParams if it is missing or of
// another kind.
const Json& field(const Json& value, const char* key);
const std::string& text_field(const Json& value, const char* key);
int64_t number_field(const Json& value, const char* key);  // a whole number from 0 to 2^31 - 1

}  // namespace xrun::lsp
