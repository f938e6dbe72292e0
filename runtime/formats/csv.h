// Tables as text: one row per line, with cells separated by one character; a cell may be in double quotes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

struct CsvOptions {
  bool header = false;       // the first line holds names
  int64_t text_columns = 0;  // this many first columns are text, even if all cells are numbers
  char delimiter = ',';
  int64_t first = 0;  // rows [first, last), counted without the header
  int64_t last = INT64_MAX;
  Bytes largest = 16 * kGiB;  // of the text, after gunzip
  StopFlag stop = nullptr;
};

struct CsvColumn {
  std::string name;  // empty without a header
  // For a column that is not all numbers: its distinct texts in byte order, and the place and fault of the first cell
  // that is not a number: "t.csv:2: column 1 is \"x4\", no number".
  std::vector<std::string> texts;
  std::string fault;
};

struct CsvTable {
  int64_t rows = 0;
  int64_t rows_in_file = 0;
  std::vector<CsvColumn> columns;
  std::vector<double> numbers;  // for a column of texts: positions in `texts`
  // Lines are counted from 1, including the header and empty lines: (row, line) wherever line - row changes.
  std::vector<std::pair<int64_t, int64_t>> lines;

  int64_t line_of(int64_t row) const;
};

// Skips empty lines, blanks around cells and a carriage return at the end of a line. In quotes "" is one quote. `name`
// is for messages. Errors: XG0412 with the line: rows of different lengths, a quote that is not closed on its line,
// text behind a quote.
Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name);

}  // namespace xrun::runtime
