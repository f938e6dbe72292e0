// Tables of text with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace xrun::planner {

enum class Align { kLeft, kRight };

// A table of cells. A column is as wide as its widest cell, and columns are two spaces apart. Widths are numbers of
// code points.
class TextTable {
 public:
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

  // Adds a row. A cell stays on one line, whatever characters it contains (graph/base/utf8.h, `printable_line`).
  void add(std::vector<std::string> cells);
  // Adds a rule under the right-aligned columns of numbers.
  void add_rule() { rows_.emplace_back(); }
  // Returns the table as text. Each line begins with `indent`, and no line ends in a space. If lines would be wider
  // than `width` (0: no limit), the cells of one left-aligned column are wrapped: the last column if it is
  // left-aligned, else the widest one.
  std::string text(const std::string& indent, int width = 0) const;

 private:
  std::vector<size_t> widths() const;
  std::string lines(const std::string& indent, int width) const;
  size_t widest_words(const std::vector<size_t>& widths) const;
  // The table with its widest column of words narrower by `excess`.
  TextTable folded(size_t excess, const std::vector<size_t>& widths) const;

  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

// Returns the text in lines of at most `width` columns, cut at spaces; 0: no limit. All lines but the first begin with
// `indent` spaces. A word that is longer than a line is not cut.
std::string wrapped(const std::string& text, size_t indent, int width);

}  // namespace xrun::planner
