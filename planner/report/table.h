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

  // A cell stays in its line, whatever it has in it (graph/base/utf8.h, `printable_line`).
  void add(std::vector<std::string> cells);
  // A rule under the right-aligned columns of numbers.
  void add_rule() { rows_.emplace_back(); }
  // Each line begins with `indent`; no line ends in a space.
  std::string text(const std::string& indent) const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace xrun::planner
