// Tables as text: columns of numbers and columns of texts (runtime/formats/csv_rows.h has the grammar).
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
  bool header = false;         // the first row holds names
  bool missing_values = true;  // false: an empty cell and words such as NA are texts
  char delimiter = ',';
  int64_t first = 0;  // rows [first, last), counted without the header
  int64_t last = INT64_MAX;
  std::vector<CsvKey> texts;  // columns of texts, even if all cells are numbers; the cells decide about other columns
  Bytes largest = 16 * kGiB;  // size limit of the text, after gunzip
  StopFlag stop = nullptr;
};

struct CsvColumn {
  std::string name;  // empty without a header
  // The distinct texts of a column of texts, in byte order, or in order of first appearance if CsvOptions::texts lists
  // the column.
  std::vector<std::string> texts;
  // Set for a column of texts: the place of its first text, "t.csv:2: column 1 is \"x4\", not a number".
  std::string fault;
  std::string help;  // for a column that should hold numbers
};

// A column is one of numbers if each cell is a number or a missing value, else one of texts. Missing values are an
// empty cell and nan, NA, N/A, ?, null and the like in any case; among numbers also None, - and similar signs, which
// are texts in a column of texts.
struct CsvTable {
  int64_t rows = 0;
  int64_t rows_in_file = 0;
  std::vector<CsvColumn> columns;
  // Row by row: the number, or the position in CsvColumn::texts. NaN is a missing value; an infinity is a number that
  // is infinite or larger than f32 can hold.
  std::vector<double> numbers;
  // Lines are counted from 1, including the header and empty lines: (row, line) wherever line - row changes.
  std::vector<std::pair<int64_t, int64_t>> lines;
  bool header_of_numbers = false;  // all cells of the header are numbers: the header may be a sample

  int64_t line_of(int64_t row) const;
};

// Parses a table. `name` is for messages. Errors: XG0412 with the line: rows of different lengths, faults of CsvRows.
Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name);

}  // namespace xrun::runtime
