// Fuzzes headers of rows files and undo logs: an accepted header has exactly the text that its values are written as,
// and accepted records name existing rows.
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "graph/base/xxh128.h"
#include "runtime/checkpoint/class_rows/class_row_header.h"
#include "runtime/checkpoint/class_rows/undo_log.h"
#include "runtime/checkpoint/class_rows/undo_reader.h"

namespace {

using namespace xrun;

void read_header(std::span<const std::byte> bytes) {
  const auto header = runtime::parse_class_row_header(bytes, "input");
  if (header.ok()) {
    const std::string text = runtime::print_class_row_header(*header);
    XRUN_CHECK(is_valid(header->layout) &&
                   std::string_view(text) == std::string_view(reinterpret_cast<const char*>(bytes.data()), text.size()),
               "one header has one text");
  }
}

// Signs the first record as its writer would, so that its contents are parsed.
void sign(std::span<uint8_t> records, const RowsLayout& layout, const std::string& id) {
  if (records.size() < static_cast<size_t>(kUndoRecordHeadBytes)) {
    return;
  }
  const uint64_t rows = records[40] % 8;
  const auto bytes = static_cast<size_t>(layout.record_bytes(static_cast<int64_t>(rows)));
  const auto at = static_cast<uint64_t>(kUndoHeaderBytes);
  std::memcpy(&records[16], "xrunUNDO", 8);
  std::memcpy(&records[24], &at, 8);
  std::memcpy(&records[40], &rows, 8);
  std::memcpy(&records[48], id.data(), 32);
  if (bytes <= records.size()) {
    const auto digest = xxh128_bytes(std::as_bytes(records.subspan(16, bytes - 16)));
    std::memcpy(records.data(), digest.data(), digest.size());
  }
}

// Puts the records after a valid header, so that they are parsed.
void read_log(std::vector<uint8_t> records, bool is_signed, bool power_was_cut) {
  static const RowsLayout layout{
      .tensor = "t", .rows = 100, .sections = {{"weight", "f8e4m3", 3}, {"scale", "f32", 4}}};
  static const int file = ::memfd_create("log", 0);
  const std::string id(32, 'a');
  if (is_signed) {
    sign(records, layout, id);
  }
  const std::string header = runtime::print_undo_header({id, id, 7, {std::string(runtime::kBootDigits, 'b'), 1, 2, 3}});
  XRUN_CHECK(
      ::ftruncate(file, 0) == 0 && ::pwrite(file, header.data(), header.size(), 0) == kUndoHeaderBytes &&
          ::pwrite(file, records.data(), records.size(), kUndoHeaderBytes) == static_cast<ssize_t>(records.size()),
      "a file in memory");
  auto log = runtime::UndoReader::read(::dup(file), "input", layout);
  XRUN_CHECK(log.ok(), "the header is right");
  for (auto record = log->next(power_was_cut); record.ok() && record->has_value(); record = log->next(power_was_cut)) {
    XRUN_CHECK((*record)->rows.front() >= 0 && (*record)->rows.back() < layout.rows, "rows of the file");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span all(data, size);
  read_header(std::as_bytes(all));
  static_cast<void>(runtime::parse_undo_header(std::as_bytes(all), "input"));
  if (size > 0) {
    read_log({data + 1, data + size}, (data[0] & 2) != 0, (data[0] & 1) != 0);
  }
  return 0;
}
