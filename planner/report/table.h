// Tables of text with aligned columns.
#pragma once

#include <string>
#include <vector>

namespace xrun::planner {

enum class Align { kLeft, kRight };

// Rows of cells; a column is as wide as its widest cell, two spaces apart. Width counts code points.
class TextTable {
 public:
  explicit TextTable(std::vector<Align> columns) : columns_(std::move(columns)) {}

  // Adds a row. A cell stays on one line, whatever characters it contains (graph/base/utf8.h, `printable_line`).
  void add(std::vector<std::string> cells);
  // Adds a rule under the right-aligned columns of numbers.
  void add_rule() { rows_.emplace_back(); }
  // Each line begins with `indent`; no line ends in a space. If lines would exceed `width` columns, a last column of
  // words, else the widest column of words, is wrapped; 0: no limit.
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

// The text in lines of at most `width` columns, cut at spaces; all but the first begin with `indent`. A longer word
// stays whole; 0: no limit.
std::string wrapped(const std::string& text, size_t indent, int width);

}  // namespace xrun::planner
