// Fuzzes zip archives in memory: every entry is read or rejected, within the limit on its size.
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/formats/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::byte> bytes;
  const auto done = xrun::runtime::visit_archive(std::as_bytes(std::span(data, size)), [&](auto& entry) {
    bytes.clear();
    const auto read = entry.read(bytes, 1 << 20);
    XRUN_CHECK(!read.ok() || bytes.size() <= 1 << 20, "the limit holds");
    return entry.name().size() > 1000 ? read : xrun::Status();
  });
  (void)done.ok();
  return 0;
}
