// Tests: tests/runtime/formats/tables/csv_test.cpp
#include "runtime/formats/tables/csv_rows.h"

namespace xrun::runtime {

void CsvRows::pass_blanks() {
  while (at_ < text_.size() && is_blank(text_[at_])) {
    ++at_;
  }
}

void CsvRows::pass_line_end() {
  at_ += text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n' ? 2 : 1;
  ++next_line_;
}

bool CsvRows::next_row() {
  while (next_cell()) {
  }
  while (fault_ == nullptr && at_ < text_.size()) {
    const size_t begin = at_;
    pass_blanks();
    if (at_ < text_.size() && !at_line_end()) {
      at_ = begin;
      line_ = next_line_;
      in_row_ = true;
      return true;
    }
    if (at_ < text_.size()) {
      pass_line_end();
    }
  }
  return false;
}

// Called after the last character of a cell: skips the delimiter, or the line break that ends the row.
void CsvRows::end_cell() {
  in_row_ = at_ < text_.size() && is_delimiter(text_[at_]);
  if (in_row_) {
    ++at_;
  }
  if (delimiter_ == ' ') {
    pass_blanks();
    in_row_ = in_row_ && at_ < text_.size() && !at_line_end();
  }
  if (!in_row_ && at_ < text_.size()) {
    pass_line_end();
  }
}

std::optional<std::string_view> CsvRows::next_cell() {
  if (!in_row_) {
    return std::nullopt;
  }
  pass_blanks();
  if (at_ < text_.size() && text_[at_] == '"' && delimiter_ != '"') {
    return quoted();
  }
  const size_t begin = at_;
  while (at_ < text_.size() && !is_delimiter(text_[at_]) && !at_line_end()) {
    ++at_;
  }
  size_t end = at_;
  while (end > begin && is_blank(text_[end - 1])) {
    --end;
  }
  end_cell();
  return text_.substr(begin, end - begin);
}

std::optional<std::string_view> CsvRows::quoted() {
  const int64_t line = next_line_;
  cell_.clear();
  for (++at_;; ++at_) {
    if (at_ >= text_.size()) {
      return refuse("a quote that is not closed", line);
    }
    if (static_cast<Bytes>(cell_.size()) > kLongestText) {
      return refuse("a quote that is not closed within 1 MiB", line);
    }
    if (text_[at_] == '"') {
      if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') {
        break;
      }
      ++at_;
    }
    const bool is_break = text_[at_] == '\n' || (text_[at_] == '\r' && text_.substr(at_ + 1, 1) != "\n");
    next_line_ += is_break ? 1 : 0;
    cell_ += text_[at_];
  }
  ++at_;
  if (delimiter_ != ' ') {
    pass_blanks();
  }
  if (at_ < text_.size() && !is_delimiter(text_[at_]) && !at_line_end()) {
    return refuse("text after a closing quote", line);
  }
  end_cell();
  return cell_;
}

std::optional<std::string_view> CsvRows::refuse(const char* why, int64_t line) {
  fault_ = why;
  line_ = line;
  in_row_ = false;
  return std::nullopt;
}

}  // namespace xrun::runtime
