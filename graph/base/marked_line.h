// A line of source text with marks below it, as diagnostics show it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct LineMark {
  int column = 1;  // column of the mark in code points, from 1
  int width = 1;
  bool primary = false;
  std::string text;
};

struct LineWindow {
  bool is_part = false;
  int begin = 0;     // code points before the window
  std::string text;  // text of the window, with `...` in place of omitted parts
};

// The part of a line in which the code point `at` lies.
LineWindow window_of(std::string_view line, int at);

// The mark that has to stay visible when a line is cut.
const LineMark& shown_of(const std::vector<LineMark>& marks);

// Converts the columns of marks in the line to columns in the window. Marks of omitted text move to its edges.
void move_marks(std::vector<LineMark>& marks, const LineWindow& window);

// The rows of text under a source line: the underline of its marks, then their texts.
std::vector<std::string> underline(std::vector<LineMark> marks);

}  // namespace xrun
