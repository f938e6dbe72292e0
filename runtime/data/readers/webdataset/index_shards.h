// Writes the indices of many shards, for `xrun data index`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

struct IndexedShard {
  Result<int64_t> samples = int64_t{0};  // number of samples, or why no index was written
  bool written = false;                  // false: the shard has a valid index that is not older than the shard
};

// Writes the index of each shard that lacks one, has one that cannot be used, or has changed since. Shards are handled
// in parallel by the workers of the calling thread's arena. The result has the order of `shards`.
//   all   write all indices again
//   done  called after each shard, by several threads at once
// Errors of a shard: those of scan_shard and save_index; the other shards are handled nevertheless.
std::vector<IndexedShard> index_shards(const std::vector<std::string>& shards, bool all,
                                       const std::function<void()>& done);

}  // namespace xrun::runtime
