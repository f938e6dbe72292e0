// Fuzzes headers of safetensors files: in an accepted file, the tensors fill the data exactly.
#include <cstdint>
#include <span>

#include "runtime/formats/tensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto header =
      xrun::runtime::parse_safetensors(std::as_bytes(std::span(data, size)), static_cast<xrun::Bytes>(size), "input");
  if (header.ok()) {
    xrun::Bytes at = 0;
    for (const auto& tensor : header->tensors) {
      XRUN_CHECK(tensor.begin == at && tensor.end >= tensor.begin, "no holes and no overlaps");
      at = tensor.end;
    }
    XRUN_CHECK(at == header->data_bytes, "the file is filled");
  }
  return 0;
}
