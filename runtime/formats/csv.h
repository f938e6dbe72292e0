// Tables as text: a row a line, its cells apart by one character; a cell may stand in double quotes.
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
  int64_t text_columns = 0;  // so many first columns are texts, even where all cells are numbers
  char delimiter = ',';
  int64_t first = 0;  // rows [first, last), counted without the header
  int64_t last = INT64_MAX;
  Bytes largest = 16 * kGiB;  // of the text, after undoing gzip
  StopFlag stop = nullptr;
};

struct CsvColumn {
  std::string name;  // empty without a header
  // Of a column that is not all numbers: its texts in byte order, each once, and the place and fault of the first cell
  // that is no number: "t.csv:2: column 1 is \"x4\", no number".
  std::vector<std::string> texts;
  std::string fault;
};

struct CsvTable {
  int64_t rows = 0;
  int64_t rows_in_file = 0;
  std::vector<CsvColumn> columns;
  std::vector<double> numbers;  // [rows, columns]; of a column of texts, positions in `texts`
  // Lines are counted from 1, with header and empty ones: (row, line) where the difference of both changes.
  std::vector<std::pair<int64_t, int64_t>> lines;

  int64_t line_of(int64_t row) const;
};

// Empty lines do not count; blanks around cells and a carriage return at the end of a line are passed over. In quotes
// "" is one quote. `name` is for messages. Errors: XG0412 names the line: rows of other lengths, a quote that is not
// closed on its line.
Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name);

}  // namespace xrun::runtime
