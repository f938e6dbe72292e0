// Tables of numbers and texts: the first byte chooses header and delimiter, the rest is the file.
#include <cstdint>
#include <string_view>

#include "runtime/formats/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  xrun::runtime::CsvOptions options{.header = (data[0] & 1) != 0, .delimiter = (data[0] & 2) != 0 ? ';' : ','};
  options.first = data[0] >> 4;
  const auto table = xrun::runtime::parse_csv({reinterpret_cast<const char*>(data) + 1, size - 1}, options, "input");
  if (table.ok()) {
    XRUN_CHECK(static_cast<int64_t>(table->numbers.size()) == table->rows * std::ssize(table->columns),
               "every row is full");
    for (size_t i = 0; i < table->numbers.size(); ++i) {
      const auto& texts = table->columns[i % table->columns.size()].texts;
      XRUN_CHECK(texts.empty() || table->numbers[i] < static_cast<double>(texts.size()), "a text that is not there");
    }
    XRUN_CHECK(table->rows == 0 || table->line_of(table->rows - 1) >= table->rows, "a row has a line of its own");
  }
  return 0;
}
