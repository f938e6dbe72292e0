#include "runtime/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

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

// Appends the numbers of a line.
Status parse_line(std::string_view line, char delimiter, int64_t number, std::string_view name,
                  std::vector<double>& out) {
  for (int64_t column = 0;; ++column) {
    const size_t end = line.find(delimiter);
    const std::string_view cell = trimmed(line.substr(0, end));
    double value = 0;
    const char* first = cell.data() + (cell.starts_with('+') ? 1 : 0);
    const auto [last, fault] = std::from_chars(first, cell.data() + cell.size(), value);
    if (std::abs(value) > std::numeric_limits<float>::max()) {
      return broken(name, number, fmt::format("column {} is {}, more than f32 can hold", column, cell.substr(0, 40)));
    }
    if (fault != std::errc() || last != cell.data() + cell.size() || !std::isfinite(value)) {
      return broken(name, number, fmt::format("column {} is \"{}\", no number", column, cell.substr(0, 40)));
    }
    out.push_back(value);
    if (end == std::string_view::npos) {
      return {};
    }
    line.remove_prefix(end + 1);
  }
}

}  // namespace

Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name) {
  CsvTable table;
  int64_t row = options.header ? -1 : 0;
  // The mark of UTF-8 that some programs write first.
  if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text.starts_with(kMark)) {
    text.remove_prefix(kMark.size());
  }
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    XRUN_TRY(check_stop(options.stop));
    if (trimmed(line).empty()) {
      continue;
    }
    if (row >= options.first && row < options.last) {
      const size_t before = table.numbers.size();
      XRUN_TRY(parse_line(line, options.delimiter, number, name, table.numbers));
      const auto columns = static_cast<int64_t>(table.numbers.size() - before);
      if (table.rows == 0) {
        table.columns = columns;
      } else if (columns != table.columns) {
        return broken(name, number, fmt::format("{} columns, but {} in the rows before", columns, table.columns));
      }
      ++table.rows;
    }
    ++row;
  }
  table.rows_in_file = std::max<int64_t>(row, 0);
  return table;
}

}  // namespace xrun::runtime
