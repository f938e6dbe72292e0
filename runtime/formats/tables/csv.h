// Tables in text files: columns of numbers and columns of texts (runtime/formats/tables/csv_rows.h has the grammar).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// A column by its position, counted from 0, or by its name in the header.
using CsvKey = std::variant<int64_t, std::string>;

struct CsvOptions {
  bool header = false;         // whether the first row has the names of the columns
  bool missing_values = true;  // false: an empty cell and words such as NA are texts
  char delimiter = ',';
  int64_t first = 0;  // rows [first, last), counted without the header
  int64_t last = INT64_MAX;
  std::vector<CsvKey> texts;  // columns to read as texts even if all cells are numbers
  // Columns to read as numbers even if some cells are texts (CsvTable::faults): by name, and by position, as ranges
  // [first, second). `texts` has priority.
  std::vector<std::string> number_names;
  std::vector<std::pair<int64_t, int64_t>> number_ranges;
  Bytes largest = 16 * kGiB;  // size limit of the text, after gunzip
  StopFlag stop = nullptr;
};

struct CsvColumn {
  std::string name;  // name of the column in the header; empty without a header
  // The distinct texts of a column of texts: in order of first appearance if CsvOptions::texts lists the column, else
  // in byte order.
  std::vector<std::string> texts;
  // For a column of texts, the message for a user who needs numbers, with the place of the first text: "t.csv:2: column
  // 1 is \"x4\", not a number".
  std::string fault;
  std::string help;  // the help that belongs to `fault`
};

// A cell that is not a number in a column that is read as numbers.
struct CsvFault {
  int64_t row = 0;
  int64_t column = 0;
  std::string text;  // its first kLongestFault bytes
};

// A table. A column holds numbers if each of its cells is a number or a missing value; otherwise it holds texts. A
// column in CsvOptions::number_names or number_ranges also holds numbers if at least half of its cells that are not
// missing are numbers; the other cells are then faults. The first row without a header is an exception: if none of its
// cells in these columns is a number, it is taken for a header, and the columns are columns of texts. They also are if
// the table would have more than kMostFaults faults.
//
// Missing values are an empty cell and nan, NA, N/A, ?, null and the like, in any case. None, - and similar signs are
// missing values in a column of numbers, and texts in a column of texts.
struct CsvTable {
  static constexpr size_t kMostFaults = 100'000;
  static constexpr size_t kLongestFault = 40;

  int64_t rows = 0;
  int64_t rows_in_file = 0;
  std::vector<CsvColumn> columns;
  // The cells, row by row: a number, or in a column of texts the position in CsvColumn::texts. NaN is a missing value.
  // An infinity stands for an infinite number and for one that is larger than f32 can hold.
  std::vector<double> numbers;
  // The lines of the rows in the file: pairs (row, line) for the rows at which the difference line - row changes. Lines
  // are counted from 1, including the header and empty lines.
  std::vector<std::pair<int64_t, int64_t>> lines;
  std::vector<CsvFault> faults;    // in the order of rows and columns; their numbers are NaN
  bool header_of_numbers = false;  // all cells of the header are numbers, so it may be a row of data

  int64_t line_of(int64_t row) const;
  const CsvFault* fault_of(int64_t row) const;  // the first fault of a row; null: it has none
};

// Parses a table. `name` is for messages. Errors: XG0412 with the line: rows of different lengths, faults of CsvRows.
Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name);

}  // namespace xrun::runtime
