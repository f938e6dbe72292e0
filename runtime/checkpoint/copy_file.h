// Copies a file of a checkpoint to another directory, and compares it with its digest meanwhile.
#pragma once

#include <atomic>
#include <string>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/manifest.h"

namespace xrun::runtime {

// Copies `from`, whose size and digest are those of `expected`, to the new file `to`, and syncs it. After an error, and
// once `stop` is set, `to` does not exist. Errors: XG0710 the file is missing, is not an ordinary file, or has another
// size or digest; XG0713 it cannot be read; XG0711 `to` cannot be written; kInterrupted.
Status copy_file(const std::string& from, const ManifestFile& expected, const std::string& to, Io& io,
                 const std::atomic<bool>* stop = nullptr);

}  // namespace xrun::runtime
