// Fuzzes headers of .npy files: any bytes give a header whose sizes cannot overflow, or an error.
#include <cstdint>
#include <span>

#include "runtime/formats/tensors/npy_header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::runtime;
  for (const char* dtype : {"", "bf16", "f8e5m2"}) {
    const auto header = parse_npy_header(std::as_bytes(std::span(data, size)), dtype, "input");
    if (header.ok()) {
      XRUN_CHECK(header->header_bytes <= static_cast<xrun::Bytes>(size) && header->dims.size() <= kMostNpyDims,
                 "the header is inside of the file");
      int64_t product = header->item_bytes;
      for (const int64_t dim : header->dims) {
        XRUN_CHECK(dim >= 0 && !__builtin_mul_overflow(product, dim, &product), "sizes do not overflow");
      }
      XRUN_CHECK(header->data_bytes == product && !npy_content(*header).empty(), "sizes fit the shape");
    }
  }
  return 0;
}
