// Decides which files a directory of checkpoints keeps after a save.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/os/io.h"
#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {

// Removes older steps of the run that has just saved `saved`. The newest `keep` steps stay, and also the best steps in
// the manifest's records and the steps in `needed`. Class rows in files can be restored only for the newest checkpoint,
// so runs with such rows remove all older steps. Also removes unfinished saves whose process has ended, and files of
// class names to which no step refers. Steps of other runs and steps with higher numbers stay.
void remove_old(const std::string& directory, const Manifest& saved, int64_t keep, const std::vector<int64_t>& needed,
                Io& io);

}  // namespace xrun::runtime
