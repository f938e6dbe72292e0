// Fuzzes tables of numbers and texts. The first byte chooses header, delimiter, missing values and a column of texts;
// the rest is the file. Columns 2 and 3 are read as numbers, whose other cells are faults.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "runtime/formats/tables/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  xrun::runtime::CsvOptions options{.header = (data[0] & 1) != 0, .delimiter = (data[0] & 2) != 0 ? '\t' : ','};
  options.missing_values = (data[0] & 4) == 0;
  options.delimiter = (data[0] & 6) == 6 ? ' ' : options.delimiter;
  options.number_ranges = {{2, 4}};
  options.first = data[0] >> 5;
  if ((data[0] & 8) != 0) {
    options.texts = {int64_t{1}};
  }
  if ((data[0] & 16) != 0) {
    options.texts.emplace_back("id");
  }
  const auto table = xrun::runtime::parse_csv({reinterpret_cast<const char*>(data) + 1, size - 1}, options, "input");
  if (table.ok()) {
    XRUN_CHECK(static_cast<int64_t>(table->numbers.size()) == table->rows * std::ssize(table->columns),
               "every row is full");
    for (size_t i = 0; i < table->numbers.size(); ++i) {
      const auto& column = table->columns[i % table->columns.size()];
      const double number = table->numbers[i];
      if (column.fault.empty()) {
        XRUN_CHECK(column.texts.empty(), "texts of a column of numbers");
      } else if (std::isnan(number)) {
        XRUN_CHECK(options.missing_values, "a missing value where all cells are texts");
      } else {
        XRUN_CHECK(number >= 0 && number < static_cast<double>(column.texts.size()), "a text that is not there");
      }
    }
    for (const auto& fault : table->faults) {
      const auto at = static_cast<size_t>(fault.row * std::ssize(table->columns) + fault.column);
      XRUN_CHECK(
          (fault.column == 2 || fault.column == 3) && table->columns[static_cast<size_t>(fault.column)].fault.empty(),
          "a fault of a column of texts");
      XRUN_CHECK(std::isnan(table->numbers[at]) && fault.text.size() <= table->kLongestFault, "a fault with a number");
      XRUN_CHECK(table->fault_of(fault.row)->row == fault.row, "a fault that is not found");
    }
    XRUN_CHECK(table->rows == 0 || table->line_of(table->rows - 1) >= table->rows, "a row has a line of its own");
  }
  return 0;
}
