// Tables of numbers: the first byte chooses header and delimiter, the rest is the file.
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
    XRUN_CHECK(static_cast<int64_t>(table->numbers.size()) == table->rows * table->columns, "every row is full");
  }
  return 0;
}
