// Source files and spans of their text. The parts of a plan keep the spans of the text that they come from, so that an
// error at run time can point at a line. Labels and edits also refer to spans.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace xrun {

// A half-open byte range of one file of a SourceMap. `file < 0` means "nowhere".
struct Span {
  int32_t file = -1;
  uint32_t begin = 0;
  uint32_t end = 0;

  bool valid() const { return file >= 0; }
  bool operator==(const Span&) const = default;
};

// The span from the start of `a` to the end of `b`; both lie in one file.
Span join(const Span& a, const Span& b);

// A span with a label: a few words that are shown next to the underline. The text may be empty.
struct Label {
  Span span;
  std::string text;
};

// A replacement of bytes of one file; an empty span at a place is an insertion.
struct Edit {
  Span span;
  std::string text;
};

// Line and column from 1; columns count code points.
struct Position {
  int line = 1;
  int column = 1;
};

// The files that a command has read, in order. The map owns their texts; views of a text are valid as long as the map.
class SourceMap {
 public:
  // Adds a file and returns its number. `path` is the path as the user typed it; messages print it.
  int32_t add(std::string path, std::string text);

  int32_t size() const { return static_cast<int32_t>(files_.size()); }
  const std::string& path(int32_t file) const;
  std::string_view text(int32_t file) const;
  std::string_view text(const Span& span) const;

  // Position of a byte offset.
  Position position(int32_t file, uint32_t offset) const;
  // The text of a line (from 1), without its newline.
  std::string_view line(int32_t file, int number) const;
  int line_count(int32_t file) const;
  // The place of a span, "face.xgraph:28:34"; "" for an invalid span.
  std::string place(const Span& span) const;

 private:
  struct File {
    std::string path;
    std::string text;
    std::vector<uint32_t> line_starts;
  };
  std::deque<File> files_;  // a deque, so that views of a text stay valid when files are added
};

// Number of code points in UTF-8 text: the bytes that are not continuation bytes (0b10xxxxxx).
int count_code_points(std::string_view text);

}  // namespace xrun
