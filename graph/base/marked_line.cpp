// Tests: tests/graph/base/base_test.cpp, tests/lang/check_golden_test.cpp
#include "graph/base/marked_line.h"

#include <algorithm>

#include "graph/base/source.h"

namespace xrun {
namespace {

// A program may have lines of megabytes. Only kMostColumns of a line are shown, from kColumnsBefore before its first
// mark.
constexpr int kMostColumns = 200;
constexpr int kColumnsBefore = 60;
constexpr std::string_view kCut = "...";

// The number of bytes that the first `count` code points take.
size_t bytes_of(std::string_view text, int count) {
  size_t at = 0;
  while (at < text.size() && count > 0) {
    ++at;
    while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) {
      ++at;
    }
    --count;
  }
  return at;
}

}  // namespace

LineWindow window_of(std::string_view line, int at) {
  const int all = count_code_points(line);
  if (all <= kMostColumns) {
    return {.text = std::string(line)};
  }
  const int begin = std::clamp(at - kColumnsBefore, 0, all - kMostColumns);
  line.remove_prefix(bytes_of(line, begin));
  const std::string_view shown = line.substr(0, bytes_of(line, kMostColumns));
  return {true, begin,
          (begin > 0 ? std::string(kCut) : "") + std::string(shown) +
              (begin + kMostColumns < all ? std::string(kCut) : "")};
}

const LineMark& shown_of(const std::vector<LineMark>& marks) {
  const auto primary = std::find_if(marks.begin(), marks.end(), [](const LineMark& mark) { return mark.primary; });
  return primary != marks.end() ? *primary : marks.front();
}

void move_marks(std::vector<LineMark>& marks, const LineWindow& window) {
  const int shift = window.begin > 0 ? window.begin - static_cast<int>(kCut.size()) : 0;
  const int last = count_code_points(window.text);
  for (LineMark& mark : marks) {
    const int end = std::clamp(mark.column + mark.width - shift, 2, last + 1);
    mark.column = std::clamp(mark.column - shift, 1, last);
    mark.width = std::max(1, end - mark.column);
  }
}

std::vector<std::string> underline(std::vector<LineMark> marks) {
  std::sort(marks.begin(), marks.end(), [](const LineMark& a, const LineMark& b) { return a.column < b.column; });
  std::string row;
  for (const LineMark& mark : marks) {
    const auto end = static_cast<size_t>(mark.column - 1 + mark.width);
    row.resize(std::max(row.size(), end), ' ');
    std::fill(row.begin() + (mark.column - 1), row.begin() + static_cast<std::ptrdiff_t>(end),
              mark.primary ? '^' : '-');
  }
  std::vector<std::string> rows{row};
  // The rightmost text stands next to the underline; the others hang below, rightmost first.
  std::vector<LineMark> hanging;
  for (size_t i = 0; i < marks.size(); ++i) {
    if (marks[i].text.empty()) {
      continue;
    }
    if (i + 1 == marks.size()) {
      rows[0] += " " + marks[i].text;
    } else {
      hanging.push_back(marks[i]);
    }
  }
  if (hanging.empty()) {
    return rows;
  }
  const auto bars = [&](size_t count) {
    std::string bar;
    for (size_t i = 0; i < count; ++i) {
      bar.resize(static_cast<size_t>(hanging[i].column - 1), ' ');
      bar += '|';
    }
    return bar;
  };
  rows.push_back(bars(hanging.size()));
  for (size_t i = hanging.size(); i-- > 0;) {
    std::string text = bars(i);
    text.resize(static_cast<size_t>(hanging[i].column - 1), ' ');
    rows.push_back(text + hanging[i].text);
  }
  return rows;
}

}  // namespace xrun
