#include "runtime/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>

namespace xrun::runtime {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

Error broken(std::string_view name, int64_t line, std::string why) {
  return {.kind = ErrorKind::kContent,
          .code = "XG0412",
          .message = fmt::format("{}:{}: {}", name, line, why),
          .help = "fix the line, or say `header=true` or another `delimiter`"};
}

// Splits a line into cells, one by one.
class Cells {
 public:
  Cells(std::string_view line, char delimiter) : rest_(line), delimiter_(delimiter) {}

  // The next cell, without quotes and the blanks around it; valid until the next call. Nothing after the last one, or
  // if a quote is not closed.
  std::optional<std::string_view> next() {
    if (ended_) {
      return std::nullopt;
    }
    const size_t begin = rest_.find_first_not_of(" \t");
    if (begin != std::string_view::npos && rest_[begin] == '"' && delimiter_ != '"') {
      return quoted(begin + 1);
    }
    const size_t end = rest_.find(delimiter_);
    const std::string_view cell = trimmed(rest_.substr(0, end));
    pass(end);
    return cell;
  }
  bool broken() const { return broken_; }

 private:
  std::optional<std::string_view> quoted(size_t at) {
    text_.clear();
    for (;; ++at) {
      if (at >= rest_.size()) {
        return leave();
      }
      if (rest_[at] == '"') {
        if (at + 1 >= rest_.size() || rest_[at + 1] != '"') {
          break;
        }
        ++at;
      }
      text_ += rest_[at];
    }
    const size_t end = rest_.find(delimiter_, at + 1);
    if (!trimmed(rest_.substr(at + 1, end == std::string_view::npos ? end : end - at - 1)).empty()) {
      return leave();
    }
    pass(end);
    return text_;
  }
  std::optional<std::string_view> leave() {
    broken_ = ended_ = true;
    return std::nullopt;
  }
  void pass(size_t end) {
    ended_ = end == std::string_view::npos;
    rest_.remove_prefix(ended_ ? rest_.size() : end + 1);
  }

  std::string_view rest_;
  char delimiter_;
  std::string text_;  // of the last cell in quotes
  bool ended_ = false;
  bool broken_ = false;
};

// The number in a cell, or the reason why it has none.
struct Number {
  double value = 0;
  const char* fault = nullptr;
};

Number number_of(std::string_view cell) {
  if (cell.starts_with('+') && cell.size() > 1 && cell[1] != '-') {
    cell.remove_prefix(1);
  }
  double value = 0;
  const auto [last, fault] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (std::abs(value) > std::numeric_limits<float>::max() && std::isfinite(value)) {
    return {0, "more than f32 can hold"};
  }
  if (fault != std::errc() || last != cell.data() + cell.size() || !std::isfinite(value)) {
    return {0, "no number"};
  }
  return {value, nullptr};
}

class Parser {
 public:
  Parser(std::string_view text, const CsvOptions& options, std::string_view name)
      : text_(text), options_(options), name_(name) {
    // The byte order mark of UTF-8, which some programs write first.
    if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text_.starts_with(kMark)) {
      text_.remove_prefix(kMark.size());
    }
  }

  Result<CsvTable> parse() {
    XRUN_TRY(each_row([this](Cells& cells, int64_t line) { return add_row(cells, line); }));
    for (size_t c = 0; c < table_.columns.size(); ++c) {
      table_.columns[c].name = c < names_.size() ? names_[c] : "";
    }
    if (std::ranges::any_of(table_.columns, [](const CsvColumn& column) { return !column.fault.empty(); })) {
      XRUN_TRY(number_texts());
    }
    return std::move(table_);
  }

 private:
  // Calls `use` with each wanted row and its line; reads the names of the header on the way.
  template <typename Use>
  Status each_row(Use use) {
    int64_t row = options_.header ? -1 : 0;
    std::string_view rest = text_;
    for (int64_t line = 1; !rest.empty(); ++line) {
      const size_t end = rest.find('\n');
      const std::string_view content = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      XRUN_TRY(check_stop(options_.stop));
      if (trimmed(content).empty()) {
        continue;
      }
      Cells cells(content, options_.delimiter);
      if (row < 0) {
        names_.clear();
        while (const auto cell = cells.next()) {
          names_.emplace_back(*cell);
        }
      } else if (row >= options_.first && row < options_.last) {
        XRUN_TRY(use(cells, line));
      }
      if (cells.broken()) {
        return broken(name_, line, "a quote that is not closed, or text behind it");
      }
      ++row;
    }
    table_.rows_in_file = std::max<int64_t>(row, 0);
    return {};
  }

  Status add_row(Cells& cells, int64_t line) {
    size_t column = 0;
    for (; const auto cell = cells.next(); ++column) {
      if (table_.rows == 0) {
        table_.columns.emplace_back();
      } else if (column >= table_.columns.size()) {
        ++column;
        break;
      }
      const bool is_text = static_cast<int64_t>(column) < options_.text_columns;
      const Number number = is_text ? Number{0, "a text"} : number_of(*cell);
      if (std::string& fault = table_.columns[column].fault; number.fault != nullptr && fault.empty()) {
        const std::string name = column < names_.size() ? fmt::format(" (`{}`)", names_[column]) : "";
        fault = fmt::format("{}:{}: column {}{} is \"{}\", {}", name_, line, column, name, cell->substr(0, 40),
                            number.fault);
      }
      table_.numbers.push_back(number.value);
    }
    if (cells.broken()) {
      return {};  // reported by the caller
    }
    if (column != table_.columns.size()) {
      while (cells.next()) {
        ++column;
      }
      return broken(name_, line, fmt::format("{} columns, but {} in the rows before", column, table_.columns.size()));
    }
    if (table_.lines.empty() || table_.lines.back().second - table_.lines.back().first != line - table_.rows) {
      table_.lines.emplace_back(table_.rows, line);
    }
    ++table_.rows;
    return {};
  }

  // Parses the rows again for the columns that are not all numbers: collects their texts, then stores each cell's
  // position.
  Status number_texts() {
    const size_t width = table_.columns.size();
    std::vector<std::map<std::string, int64_t, std::less<>>> found(width);
    const auto each_text = [&](auto use) {
      size_t row = 0;
      return each_row([&](Cells& cells, int64_t) -> Status {
        size_t column = 0;
        for (; const auto cell = cells.next(); ++column) {
          if (!table_.columns[column].fault.empty()) {
            use(row * width + column, found[column], *cell);
          }
        }
        ++row;
        return {};
      });
    };
    XRUN_TRY(each_text([](size_t, auto& texts, std::string_view cell) {
      if (texts.find(cell) == texts.end()) {
        texts.emplace(cell, 0);
      }
    }));
    for (size_t column = 0; column < width; ++column) {
      for (auto& [text, position] : found[column]) {
        position = std::ssize(table_.columns[column].texts);
        table_.columns[column].texts.push_back(text);
      }
    }
    return each_text([&](size_t at, auto& texts, std::string_view cell) {
      table_.numbers[at] = static_cast<double>(texts.find(cell)->second);
    });
  }

  std::string_view text_;
  const CsvOptions& options_;
  std::string_view name_;
  std::vector<std::string> names_;  // of the header
  CsvTable table_;
};

}  // namespace

int64_t CsvTable::line_of(int64_t row) const {
  const auto after = std::ranges::upper_bound(lines, row, {}, [](const auto& one) { return one.first; });
  return after == lines.begin() ? 0 : (after - 1)->second + row - (after - 1)->first;
}

Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name) {
  return Parser(text, options, name).parse();
}

}  // namespace xrun::runtime
