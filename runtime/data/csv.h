// The `csv` reader: a table of numbers, read through column(i) and columns(a..b).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/reader.h"

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

// The table of a file. Errors: XG0401, XG0412, also where the text is longer than options.largest.
Result<CsvTable> read_csv(const std::string& path, const CsvOptions& options);

// Field `row` f64 [columns]. Errors: XG0401, XG0412; XG0413 where the file ends before the rows asked for.
Result<std::unique_ptr<Reader>> open_csv(const SourceSpec& spec, StopFlag stop);

}  // namespace xrun::runtime
