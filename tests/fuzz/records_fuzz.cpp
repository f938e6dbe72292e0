// Fuzzes files of records: any bytes are visited to their end, and each record that is found can be read or is refused.
#include <cstdint>
#include <span>

#include "runtime/formats/records/record_file.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun;
  const auto bytes = std::as_bytes(std::span(data, size));
  const test::MemoryFile input(bytes);
  const auto file = runtime::RecordFile::open(input.path());
  if (!file.ok()) {
    return 0;
  }
  std::vector<std::byte> to;
  Bytes last = -1;
  const Status visited = runtime::visit_records(**file, nullptr, [&](const runtime::RecordHead& head) -> Status {
    XRUN_CHECK(head.offset > last && head.next > head.offset, "a visit goes forward");
    last = head.offset;
    const auto record = (*file)->read(head.offset, head.next - head.offset, to);
    if (record.ok()) {
      XRUN_CHECK(record->end <= static_cast<Bytes>(size), "a record lies in its file");
      const auto image = runtime::parse_image_record(record->contents);
      XRUN_CHECK(!image.ok() || image->list.size() + image->image.size() <= size, "its parts lie in the record");
    }
    return {};
  });
  XRUN_CHECK(visited.ok() || !visited.error().message.empty(), "a fault has a message");
  return 0;
}
