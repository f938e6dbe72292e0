// The shards that the patterns of a `webdataset` source name.
#pragma once

#include <string>
#include <vector>

#include "graph/base/result.h"

namespace xrun::runtime {

inline constexpr size_t kMostShards = size_t{1} << 22;

// Expands patterns to paths in order: brace ranges such as `{000000..001281}`, several in any place, and alternatives
// `{a,b}`; `*` and `?` in file names; a directory stands for the .tar files in it. Files of a directory are in byte
// order of their names. A file whose name has braces is taken as it is. Relative paths start at `directory`. The paths
// of a range need not exist. Errors: XG0401 no file fits a pattern, or a path is a URL; XG0413 a faulty pattern, `*` in
// the name of a directory, more than kMostShards paths.
Result<std::vector<std::string>> shard_paths(const std::string& directory, const std::vector<std::string>& patterns);

}  // namespace xrun::runtime
