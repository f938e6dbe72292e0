#include "planner/report/table.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "graph/base/source.h"
#include "graph/base/utf8.h"

namespace xrun::planner {
namespace {

constexpr size_t kLeastWords = 16;  // minimum width of a column of words

std::string_view word_at(const std::string& text, size_t at) {
  const std::string_view rest = std::string_view(text).substr(std::min(at, text.size()));
  return rest.substr(0, rest.find(' '));
}

// Whether the word before `end`, which begins at `begin` or after a space, is a number.
bool is_number(const std::string& text, size_t begin, size_t end) {
  const size_t space = text.rfind(' ', end - 1);
  const size_t first = space == std::string::npos || space < begin ? begin : space + 1;
  const std::string_view word = std::string_view(text).substr(first, end - first);
  return !word.empty() && word.find_first_of("0123456789") != std::string_view::npos &&
         word.find_first_not_of("0123456789.,+-(") == std::string_view::npos;
}

bool is_unit(const std::string& text, size_t at) {
  std::string_view word = word_at(text, at);
  word = word.substr(0, word.find_last_not_of(".,;:)") + 1);
  constexpr std::array kUnits{"%",     "us",    "ms",     "s",      "min",     "h",         "d",       "B",
                              "KiB",   "MiB",   "GiB",    "TiB",    "W",       "GHz",       "GB/s",    "MB/s",
                              "GiB/s", "MiB/s", "GFLOPS", "TFLOPS", "GFLOP/s", "samples/s", "images/s"};
  const bool is_group = word.size() == 3 && word.find_first_not_of("0123456789") == std::string_view::npos;
  return is_group || std::ranges::find(kUnits, word) != kUnits.end();  // "12 345"
}

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    cell = printable_line(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string wrapped(const std::string& text, size_t indent, int width) {
  const auto columns = static_cast<size_t>(std::max(width, 0));
  std::string out;
  size_t used = 0;  // width of the current line
  for (size_t at = 0; at < text.size();) {
    const size_t spaces = std::min(text.size(), text.find_first_not_of(' ', at)) - at;
    size_t end = std::min(text.size(), text.find(' ', at + spaces));
    // A number and its unit stay on one line: "47.2 %", "63.4 ms", "12 345 samples/s".
    while (end < text.size() && is_number(text, at + spaces, end) && is_unit(text, end + 1)) {
      end = std::min(text.size(), text.find(' ', end + 1));
    }
    const std::string word = text.substr(at, end - at);  // includes the spaces before the word
    const auto length = static_cast<size_t>(count_code_points(word));
    if (columns > 0 && used > indent && used + length > columns) {
      out += "\n" + std::string(indent, ' ') + word.substr(spaces);
      used = indent + length - spaces;
    } else {
      out += word;
      used += length;
    }
    at = end;
  }
  return out;
}

// Returns the index of the widest left-aligned column, which has words. The last column is not considered.
size_t TextTable::widest_words(const std::vector<size_t>& widths) const {
  size_t widest = 0;
  for (size_t c = 0; c + 1 < columns_.size(); ++c) {
    widest = columns_[c] == Align::kLeft && widths[c] > widths[widest] ? c : widest;
  }
  return widest;
}

TextTable TextTable::folded(size_t excess, const std::vector<size_t>& widths) const {
  const size_t widest = widest_words(widths);
  const size_t left = std::max(kLeastWords, widths[widest] - std::min(widths[widest], excess));
  TextTable table(columns_);
  for (const auto& row : rows_) {
    if (row.size() <= widest) {
      table.rows_.push_back(row);
      continue;
    }
    std::istringstream lines(wrapped(row[widest], 0, static_cast<int>(left)));
    std::vector<std::string> cells = row;
    for (std::string line; std::getline(lines, line) || cells.size() == columns_.size();) {
      cells[widest] = line;
      table.rows_.push_back(std::exchange(cells, std::vector<std::string>(widest + 1)));
    }
  }
  return table;
}

std::vector<size_t> TextTable::widths() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], static_cast<size_t>(count_code_points(row[c])));
    }
  }
  return widths;
}

std::string TextTable::text(const std::string& indent, int width) const {
  TextTable table = *this;
  // A word that is too long stays whole, so folding may not help.
  for (size_t folds = 0; width > 0 && folds < columns_.size(); ++folds) {
    const std::vector<size_t> widths = table.widths();
    size_t fixed = indent.size() + std::accumulate(widths.begin(), widths.end(), 2 * (widths.size() - 1));
    fixed -= columns_.back() == Align::kLeft ? widths.back() + 2 : 0;  // a last column of words can be wrapped
    if (fixed <= static_cast<size_t>(width) || widths[widest_words(widths)] <= kLeastWords) {
      break;
    }
    table = table.folded(fixed - static_cast<size_t>(width), widths);
  }
  return table.lines(indent, width);
}

std::string TextTable::lines(const std::string& indent, int width) const {
  const std::vector<size_t> widths = this->widths();
  std::string text;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string rule = columns_[c] == Align::kRight ? std::string(widths[c], '-') : std::string();
      const std::string& cell = row.empty() ? rule : c < row.size() ? row[c] : std::string();
      const std::string space(widths[c] - static_cast<size_t>(count_code_points(cell)), ' ');
      line += (c == 0 ? "" : "  ") + (columns_[c] == Align::kLeft ? cell + space : space + cell);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    const bool words = columns_.back() == Align::kLeft && row.size() == columns_.size();
    size_t last = indent.size();  // start of the last column
    for (size_t c = 0; c + 1 < columns_.size(); ++c) {
      last += widths[c] + 2;
    }
    // If there is little space for the last cell, it is printed on separate lines, below the second column.
    constexpr int kFewColumns = 24;
    if (words && width > 0 && width - static_cast<int>(last) < kFewColumns && count_code_points(line) > width) {
      const size_t second = indent.size() + widths[0] + 2;
      line.resize(line.size() - row.back().size());
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n" + wrapped(std::string(second, ' ') + row.back(), second, width) + "\n";
      continue;
    }
    text += (words ? wrapped(line, last, width) : line) + "\n";
  }
  return text;
}

}  // namespace xrun::planner
