// Parses a table in two passes. The first pass reads all cells as numbers, and finds the columns with a cell that is
// neither a number nor a missing value. These columns, and those in CsvOptions::texts, are columns of texts, unless
// settle_numbers decides that the texts of a column are faults. If there are columns of texts, a second pass collects
// the distinct texts of each column and stores the position of each cell among them. So tables of numbers, which are
// the largest, are parsed once, and no cell is kept as a string.
#include "runtime/formats/tables/csv.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <set>

#include "graph/base/errors.h"
#include "runtime/formats/tables/csv_cells.h"
#include "runtime/formats/tables/csv_rows.h"

namespace xrun::runtime {
namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

Error broken(std::string_view name, int64_t line, std::string_view why, std::string help) {
  return content_error("XG0412", {"{}:{}: {}", name, line, why}, std::move(help));
}

std::string counted_columns(size_t count) { return fmt::format("{} column{}", count, count == 1 ? "" : "s"); }

// Recognises "2,5": a number with a comma as its decimal point.
bool has_decimal_comma(std::string_view text) {
  const size_t comma = text.find(',');
  if (comma == std::string_view::npos) {
    return false;
  }
  std::string pointed(text);
  pointed[comma] = '.';
  return classify_cell(pointed).kind == CsvCell::kNumber;
}

// The help for a text where numbers were expected.
std::string help_for_text(std::string_view text, bool may_be_header, char delimiter) {
  if (has_decimal_comma(text) && delimiter != ',') {
    return "write decimals with a point: 2.5";
  }
  std::string help = "fix the line";
  for (const char other : {';', '\t', '|', ','}) {
    if (other != delimiter && text.find(other) != std::string_view::npos) {
      help += fmt::format(", or say `delimiter=\"{}\"`", other == '\t' ? std::string("\\t") : std::string(1, other));
      break;
    }
  }
  return may_be_header ? help + ", or say `header=true` if it holds the names of the columns" : help;
}

class Parser {
 public:
  Parser(std::string_view text, const CsvOptions& options, std::string_view name)
      : text_(text),
        options_(options),
        name_(name),
        texts_(options.texts.begin(), options.texts.end()),
        numbers_(options.number_names.begin(), options.number_names.end()) {
    // Skips the byte order mark of UTF-8, which some programs write at the start of a file.
    if (constexpr std::string_view kMark = "\xEF\xBB\xBF"; text_.starts_with(kMark)) {
      text_.remove_prefix(kMark.size());
    }
  }

  Result<CsvTable> parse() {
    XRUN_TRY(each_row([this](CsvRows& rows) { return add_row(rows); }));
    settle_numbers();
    for (size_t c = 0; c < table_.columns.size(); ++c) {
      CsvColumn& column = table_.columns[c];
      column.name = name_of(c);
      // Placeholders such as "-" are missing values only among numbers. In a column without numbers they are texts.
      if (column.fault.empty() && found_[c].numbers == 0 && !found_[c].placeholder.empty()) {
        column.fault = std::move(found_[c].placeholder);
        column.help = "fix the line";
      }
    }
    if (std::ranges::any_of(table_.columns, [](const CsvColumn& column) { return !column.fault.empty(); })) {
      XRUN_TRY(number_texts());
    }
    return std::move(table_);
  }

 private:
  // The kinds of cells found in a column so far.
  struct Found {
    bool named = false;       // CsvOptions::texts lists the column
    bool wanted = false;      // it is to be read as numbers
    int64_t numbers = 0;      // cells that are numbers
    int64_t texts = 0;        // cells that are texts
    bool begins = false;      // the first row has a number
    std::string placeholder;  // message about the first placeholder, with its place
  };

  std::string name_of(size_t column) const { return column < names_.size() ? names_[column] : ""; }

  // Calls `use` with each wanted row. If the table has a header, reads the names in it first.
  template <typename Use>
  Status each_row(Use use) {
    CsvRows rows(text_, options_.delimiter);
    int64_t row = options_.header ? -1 : 0;
    for (; rows.next_row(); ++row) {
      XRUN_TRY(check_stop(options_.stop));
      if (row < 0) {
        read_header(rows);
      } else if (row >= options_.first && row < options_.last) {
        XRUN_TRY(use(rows));
      }
    }
    if (rows.fault() != nullptr) {
      return broken(name_, rows.line(), rows.fault(), "close the quote, or write each quote inside a text twice: \"\"");
    }
    table_.rows_in_file = std::max<int64_t>(row, 0);
    return {};
  }

  void read_header(CsvRows& rows) {
    names_.clear();
    bool numbers = true;
    bool counts = true;  // true: the header is 0, 1, 2, ... or 1, 2, 3, ..., which programs use for unnamed columns
    while (const auto cell = rows.next_cell()) {
      const CsvCell meaning = classify_cell(*cell);
      numbers = numbers && meaning.kind == CsvCell::kNumber;
      counts = counts && (*cell == fmt::format("{}", names_.size()) || *cell == fmt::format("{}", names_.size() + 1));
      names_.emplace_back(*cell);
    }
    constexpr size_t kFewest = 3;  // samples such as 0,1 are common, so a header of two numbers proves nothing
    table_.header_of_numbers = numbers && !names_.empty() && !(counts && names_.size() >= kFewest);
  }

  void begin_columns(size_t count) {
    for (size_t c = table_.columns.size(); c < count; ++c) {
      table_.columns.emplace_back();
      const auto position = static_cast<int64_t>(c);
      const bool has_name = c < names_.size();
      Found& found = found_.emplace_back();
      found.named = texts_.contains(CsvKey(position)) || (has_name && texts_.contains(CsvKey(names_[c])));
      found.wanted = !found.named && ((has_name && numbers_.contains(names_[c])) ||
                                      std::ranges::any_of(options_.number_ranges, [&](const auto& range) {
                                        return range.first <= position && position < range.second;
                                      }));
      if (found.named) {
        table_.columns.back().fault = fmt::format("{}: column {} is read as text", name_, described(c));
        table_.columns.back().help = "read a column as text or as numbers, not both";
      }
    }
  }

  std::string described(size_t column) const {
    return column < names_.size() ? fmt::format("{} (`{}`)", column, names_[column]) : fmt::format("{}", column);
  }

  // Records a text, which is a fault if its column turns out to hold numbers.
  void add_fault(size_t c, std::string_view text) {
    ++found_[c].texts;
    if (found_[c].wanted && table_.faults.size() <= CsvTable::kMostFaults) {
      table_.faults.push_back(
          {table_.rows, static_cast<int64_t>(c), std::string(text.substr(0, CsvTable::kLongestFault))});
    }
  }

  // Decides which columns with texts hold numbers, and keeps the faults of these.
  void settle_numbers() {
    const bool begins_with_text = !table_.faults.empty() && table_.faults.front().row == 0;
    const bool is_header =
        !options_.header && options_.first == 0 && begins_with_text &&
        std::ranges::none_of(found_, [](const Found& found) { return found.wanted && found.begins; });
    const bool too_many = table_.faults.size() > CsvTable::kMostFaults;
    for (size_t c = 0; c < found_.size(); ++c) {
      Found& found = found_[c];
      found.wanted = found.wanted && !is_header && !too_many && found.numbers > 0 && found.texts <= found.numbers;
      if (found.wanted) {
        table_.columns[c].fault.clear();
        table_.columns[c].help.clear();
      }
    }
    std::erase_if(table_.faults,
                  [&](const CsvFault& fault) { return !found_[static_cast<size_t>(fault.column)].wanted; });
  }

  double add_cell(size_t c, std::string_view text, int64_t line) {
    CsvCell cell = classify_cell(text);
    if (!options_.missing_values && cell.kind != CsvCell::kNumber) {
      cell.kind = CsvCell::kText;
    }
    const auto place = [&] {
      return fmt::format("{}:{}: column {} is \"{}\", not a number", name_, line, described(c), text.substr(0, 40));
    };
    CsvColumn& column = table_.columns[c];
    Found& found = found_[c];
    if (cell.kind == CsvCell::kText && column.fault.empty()) {
      column.fault = place();
      column.help = help_for_text(text, table_.rows == 0 && !options_.header, options_.delimiter);
    } else if (cell.kind == CsvCell::kPlaceholder && found.placeholder.empty()) {
      found.placeholder = place();
    }
    if (cell.kind == CsvCell::kNumber) {
      ++found.numbers;
      found.begins = found.begins || table_.rows == 0;
    } else if (cell.kind == CsvCell::kText) {
      add_fault(c, text);
    }
    return cell.kind == CsvCell::kNumber ? cell.value : kMissing;
  }

  Status add_row(CsvRows& rows) {
    const int64_t line = rows.line();
    size_t width = 0;
    for (; const auto cell = rows.next_cell(); ++width) {
      if (table_.rows == 0) {
        begin_columns(width + 1);
      }
      if (width < table_.columns.size()) {
        table_.numbers.push_back(add_cell(width, *cell, line));
      }
    }
    if (rows.fault() != nullptr) {
      return {};  // each_row then reports the fault
    }
    if (width != table_.columns.size()) {
      return broken(name_, line,
                    fmt::format("{}, but {} in the rows before", counted_columns(width), table_.columns.size()),
                    fmt::format("give all lines the same number of cells, and put a text that contains `{}` in quotes",
                                options_.delimiter == '\t' ? std::string("\\t") : std::string(1, options_.delimiter)));
    }
    if (table_.lines.empty() || table_.lines.back().second - table_.lines.back().first != line - table_.rows) {
      table_.lines.emplace_back(table_.rows, line);
    }
    ++table_.rows;
    return {};
  }

  // Parses the rows again for the columns of texts: collects the texts of each column, then stores the position of each
  // cell.
  Status number_texts() {
    const size_t width = table_.columns.size();
    std::vector<std::map<std::string, int64_t, std::less<>>> found(width);
    const auto each_text = [&](auto use) {
      size_t row = 0;
      return each_row([&](CsvRows& rows) -> Status {
        size_t column = 0;
        for (; const auto cell = rows.next_cell(); ++column) {
          if (!table_.columns[column].fault.empty() && !(options_.missing_values && is_missing_value(*cell))) {
            use(row * width + column, found[column], *cell);
          }
        }
        ++row;
        return {};
      });
    };
    XRUN_TRY(each_text([](size_t, auto& texts, std::string_view cell) {
      if (texts.find(cell) == texts.end()) {
        texts.emplace(cell, std::ssize(texts));
      }
    }));
    for (size_t column = 0; column < width; ++column) {
      std::vector<std::string>& texts = table_.columns[column].texts;
      texts.resize(found[column].size());
      int64_t next = 0;
      for (auto& [text, position] : found[column]) {
        position = found_[column].named ? position : next++;
        texts[static_cast<size_t>(position)] = text;
      }
      if (!table_.columns[column].fault.empty()) {
        // Drops the numbers of the first pass: in a column of texts, a cell is a text or a missing value.
        for (size_t at = column; at < table_.numbers.size(); at += width) {
          table_.numbers[at] = kMissing;
        }
      }
    }
    return each_text([&](size_t at, auto& texts, std::string_view cell) {
      table_.numbers[at] = static_cast<double>(texts.find(cell)->second);
    });
  }

  std::string_view text_;
  const CsvOptions& options_;
  std::string_view name_;
  std::set<CsvKey> texts_;          // CsvOptions::texts
  std::set<std::string> numbers_;   // CsvOptions::number_names
  std::vector<std::string> names_;  // column names in the header
  std::vector<Found> found_;        // index: column
  CsvTable table_;
};

}  // namespace

int64_t CsvTable::line_of(int64_t row) const {
  const auto after = std::ranges::upper_bound(lines, row, {}, [](const auto& one) { return one.first; });
  return after == lines.begin() ? 0 : (after - 1)->second + row - (after - 1)->first;
}

const CsvFault* CsvTable::fault_of(int64_t row) const {
  const auto found = std::ranges::lower_bound(faults, row, {}, &CsvFault::row);
  return found != faults.end() && found->row == row ? &*found : nullptr;
}

Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name) {
  return Parser(text, options, name).parse();
}

}  // namespace xrun::runtime
