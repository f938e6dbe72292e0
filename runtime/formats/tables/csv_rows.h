// Splits the text of a table into rows and cells.
//
//   text   row, line break, row, ...     a line break is LF, CR LF or CR
//   row    cell, delimiter, cell, ...    a line of blanks alone is not a row
//   cell   plain text without blanks around it, or "text in quotes", where "" is one quote and line breaks are text
//
// Blanks are spaces and tabs, unless they are the delimiter. If the delimiter is a space, cells are separated by runs
// of blanks, and blanks at the ends of a line separate nothing. Source: RFC 4180, with these more liberal line breaks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "graph/base/units.h"

namespace xrun::runtime {

class CsvRows {
 public:
  static constexpr Bytes kLongestText = kMiB;  // size limit of a cell in quotes

  // REQUIRES: the delimiter is not a line break. The text outlives this object.
  CsvRows(std::string_view text, char delimiter) : text_(text), delimiter_(delimiter) {}

  // Moves to the next row; returns false at the end of the text, or after a fault in the previous row.
  bool next_row();
  // Returns the next cell of the row, valid until the next call; nullopt after the last cell or after a fault.
  std::optional<std::string_view> next_cell();

  // The line on which the row begins, counted from 1; after a fault, the line on which the faulty cell begins.
  int64_t line() const { return line_; }
  // The fault that was found: a quote that is not closed, or text after a closing quote. Null if there is no fault.
  const char* fault() const { return fault_; }

 private:
  bool at_line_end() const { return text_[at_] == '\n' || text_[at_] == '\r'; }
  bool is_delimiter(char c) const { return c == delimiter_ || (delimiter_ == ' ' && c == '\t'); }
  bool is_blank(char c) const { return (c == ' ' || c == '\t') && (c != delimiter_ || delimiter_ == ' '); }
  void pass_blanks();
  void pass_line_end();
  void end_cell();
  std::optional<std::string_view> quoted();
  std::optional<std::string_view> refuse(const char* why, int64_t line);

  std::string_view text_;
  char delimiter_;
  size_t at_ = 0;
  int64_t next_line_ = 1;  // number of the line that contains `at_`
  int64_t line_ = 0;
  bool in_row_ = false;  // whether the current row has more cells
  const char* fault_ = nullptr;
  std::string cell_;  // the text of the last cell in quotes
};

}  // namespace xrun::runtime
