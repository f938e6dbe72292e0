// Fuzzes headers of IDX files: any bytes give a header whose sizes cannot overflow, or an error.
#include <cstdint>
#include <span>

#include "runtime/formats/tensors/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header = xrun::runtime::parse_idx_header(std::as_bytes(std::span(data, size)), "input");
  if (header.ok()) {
    XRUN_CHECK(header->data_bytes >= 0 && header->header_bytes <= static_cast<xrun::Bytes>(size), "sizes are checked");
  }
  return 0;
}
