// Fuzzes tar shards: the samples that are found lie within the shard and follow one another. Blocks that have the mark
// of a header get the right checksum first, since the fuzzer would hardly ever guess it.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/data/readers/webdataset/sample_member.h"
#include "runtime/data/readers/webdataset/shard_samples.h"
#include "tests/support/tar_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::runtime;
  std::string archive(reinterpret_cast<const char*>(data), size);
  for (size_t at = 0; at + 512 <= archive.size(); at += 512) {
    if (archive.compare(at + 257, 5, "ustar") == 0) {
      xrun::testing::set_checksum(archive, at);
    }
  }
  const auto bytes = xrun::testing::bytes_of(archive);
  TarMemory whole(bytes);
  const std::string path = "input";
  const auto shard = scan_shard(whole, path);
  if (!shard.ok()) {
    return 0;
  }
  for (size_t i = 0; i < shard->first_blocks.size(); ++i) {
    const xrun::Bytes begin = shard->begin_of(i), end = shard->end_of(i);
    XRUN_CHECK(begin >= 0 && begin < end && end <= static_cast<xrun::Bytes>(size), "samples are within the shard");
    TarMemory part(bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), begin);
    const auto found =
        find_member(part, {.path = path, .number = i, .begin = begin, .label = shard->labels.at(i)}, "image");
    XRUN_CHECK(!found.ok() || (found->offset >= begin && found->offset + found->size <= end), "and so are members");
    XRUN_CHECK(found.ok() || found.error().code == "XG0412", "a sample is the same when it is read again");
  }
  return 0;
}
