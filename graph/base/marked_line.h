// A line of source text with marks below it, as diagnostics show it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xrun {

struct LineMark {
  int column = 1;  // from 1, code points
  int width = 1;
  bool primary = false;
  std::string text;
};

struct LineWindow {
  bool is_part = false;
  int begin = 0;     // code points before the window
  std::string text;  // with `...` in place of omitted parts
};

// The part of a line in which the code point `at` lies.
LineWindow window_of(std::string_view line, int at);

// The mark that has to stay visible when a line is cut.
const LineMark& shown_of(const std::vector<LineMark>& marks);

// Moves marks to their columns in a part of the line; marks of omitted text go to the edges.
void move_marks(std::vector<LineMark>& marks, const LineWindow& window);

// The rows under a source line.
std::vector<std::string> underline(std::vector<LineMark> marks);

}  // namespace xrun
