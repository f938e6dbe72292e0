// Stores the positions and labels of a shard's samples in an index next to it, NAME.xidx for NAME.tar, so that opening
// the shard reads one small file instead of all headers. docs/reference/formats.md, "Tar shards and their indices".
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/data/readers/webdataset/shard_samples.h"

namespace xrun::runtime {

inline constexpr uint32_t kShardIndexSchema = 1;

// Identifies a shard together with its size: the XXH3-128 of the headers of its first, middle and last sample. They
// hold names and sizes, so samples that were moved, added or removed change it. It does not depend on the time of the
// file, which copies change.
using ShardProbe = std::array<std::byte, 16>;

struct ShardIndex {
  ShardSamples samples;
  ShardProbe probe{};
};

std::string index_path(const std::string& shard);

std::vector<std::byte> index_bytes(const ShardIndex& index);
// Checks and decodes an index; `name` is for messages. Errors: XG0441 it is damaged, or of a later version.
Result<ShardIndex> parse_index(std::span<const std::byte> bytes, const std::string& name);

// The state of the index of a shard.
struct IndexedSamples {
  std::optional<ShardSamples> samples;  // nullopt: there is no usable index
  std::string fault;                    // why the index cannot be used; empty if it can be, or does not exist
  bool older = false;                   // the shard was changed after its index was written
};

// Reads the index of a shard and compares it with the shard. Errors: XG0401 the shard cannot be opened.
Result<IndexedSamples> load_index(const std::string& shard);

// Writes the index of a shard that was scanned. Errors: XG0441 the place is taken by a file that is not an index, or
// the index cannot be written; XG0401.
Status save_index(const std::string& shard, ShardSamples samples);

}  // namespace xrun::runtime
