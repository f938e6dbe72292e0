// Fuzzes archives .npz in memory: every array is read or rejected, and takes no more memory than deflate can fill.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/formats/tensors/npy_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::runtime;
  const auto file =
      std::make_shared<const RandomFile>(RandomFile::in_memory(std::as_bytes(std::span(data, size)), "input"));
  const auto members = list_npz(*file);
  if (!members.ok()) {
    return 0;
  }
  for (const ZipMember& member : *members) {
    const auto array = NpyFile::open_member(file, member, "bf16", NpyFile::Extent::kWhole, nullptr);
    if (!array.ok()) {
      continue;
    }
    XRUN_CHECK(array->held() <= static_cast<xrun::Bytes>(1032 * size), "the limit holds");
    std::vector<std::byte> sample(static_cast<size_t>(array->sample_bytes()));
    for (int64_t i = 0; i < array->samples() && i < 4; ++i) {
      XRUN_CHECK(array->read(i, 1, sample).ok(), "an open array has all of its samples");
    }
  }
  return 0;
}
