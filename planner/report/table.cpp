#include "planner/report/table.h"

#include <algorithm>

#include "graph/base/source.h"
#include "graph/base/utf8.h"

namespace xrun::planner {

void TextTable::add(std::vector<std::string> cells) {
  for (std::string& cell : cells) {
    cell = printable_line(cell);
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(const std::string& indent) const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) {
      widths[c] = std::max(widths[c], static_cast<size_t>(count_code_points(row[c])));
    }
  }
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
    text += line + "\n";
  }
  return text;
}

}  // namespace xrun::planner
