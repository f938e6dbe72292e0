// Decides which files a directory of checkpoints keeps after a save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/io.h"
#include "runtime/checkpoint/manifest.h"

namespace xrun::runtime {

// Removes older steps of the run that has saved `saved`: all but the newest `keep`, the best ones of its records, and
// those of `needed`. Class rows in files belong to the newest checkpoint only, so runs with such rows remove all older
// steps. Also removes unfinished saves whose owner has ended, and names of classes to which no step refers. Steps of
// other runs, and higher ones, stay.
void remove_old(const std::string& directory, const Manifest& saved, int64_t keep, const std::vector<int64_t>& needed,
                Io& io);

}  // namespace xrun::runtime
