// Copies a file of a checkpoint to another directory, and checks its digest while it is copied.
#pragma once

#include <atomic>
#include <string>

#include "graph/base/result.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/files/manifest.h"

namespace xrun::runtime {

// Copies `from` to the new file `to`, checks that it has the size and digest of `expected`, and syncs it. If the call
// fails, or `stop` is set meanwhile, `to` does not exist afterwards. Errors: XG0710 the file is missing, is not an
// ordinary file, or has another size or digest; XG0713 it cannot be read; XG0711 `to` cannot be written; kInterrupted
// `stop` was set.
Status copy_file(const std::string& from, const ManifestFile& expected, const std::string& to, Io& io,
                 const std::atomic<bool>* stop = nullptr);

}  // namespace xrun::runtime
