// Reads a text file line by line in bounded memory, with the place of each line in the file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

struct TextLine {
  std::string_view text;  // without the line break (LF or CR LF); valid during the visit
  int64_t number = 0;     // counted from 1
  Bytes offset = 0;       // position of the first character of `text` in the file
};

// Calls `visit` for each line that is not empty, in order. A byte order mark (UTF-8) before the first line is skipped.
// Errors: XG0401; XG0412 a line is longer than `longest`, or the file is compressed or not a text; kInterrupted; those
// of `visit`.
Status visit_lines(const std::string& path, size_t longest, StopFlag stop,
                   const std::function<Status(const TextLine&)>& visit);

// Whether a character is a space or a tab, and a text without them at both ends.
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }
std::string_view trimmed(std::string_view text);

// The first line of a text that is not empty; an empty text if there is none. Errors: as visit_lines.
Result<std::string> first_line(const std::string& path, size_t longest);

}  // namespace xrun::runtime
