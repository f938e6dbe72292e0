// Tables of numbers as text: a row a line, its numbers apart by one character.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

struct CsvOptions {
  bool header = false;  // the first line holds names
  char delimiter = ',';
  int64_t first = 0;  // rows [first, last), counted without the header
  int64_t last = INT64_MAX;
  Bytes largest = 16 * kGiB;  // of the text, after undoing gzip
  StopFlag stop = nullptr;
};

struct CsvTable {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rows_in_file = 0;
  std::vector<double> numbers;  // [rows, columns]
};

// Parses lines of numbers; empty lines do not count, blanks around numbers and a carriage return at the end of a line
// are passed over. `name` is for messages. Errors: XG0412 names line and column.
Result<CsvTable> parse_csv(std::string_view text, const CsvOptions& options, std::string_view name);

}  // namespace xrun::runtime
