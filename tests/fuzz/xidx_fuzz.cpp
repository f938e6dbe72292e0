// Fuzzes indices of tar shards: the samples of an accepted index lie within the shard. The digest at the end is made
// right first, since the fuzzer would never guess it.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/base/xxh128.h"
#include "runtime/data/readers/webdataset/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace xrun::runtime;
  const auto input = std::as_bytes(std::span(data, size));
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (bytes.size() > 16) {
    std::ranges::copy(xrun::xxh128_bytes(std::span(bytes).first(bytes.size() - 16)), bytes.end() - 16);
  }
  const auto index = parse_index(bytes, "input");
  if (!index.ok()) {
    return 0;
  }
  const ShardSamples& samples = index->samples;
  XRUN_CHECK(samples.labels.size() == samples.first_blocks.size(), "each sample has a label");
  for (size_t i = 0; i < samples.first_blocks.size(); ++i) {
    XRUN_CHECK(samples.begin_of(i) < samples.end_of(i) && samples.end_of(i) <= samples.bytes, "samples are in order");
  }
  XRUN_CHECK(parse_index(index_bytes(*index), "again").ok(), "it can be written again");
  return 0;
}
