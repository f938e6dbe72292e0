// A directory of checkpoints in which a run begins anew (`--resume never`): a run that is there is kept.
#pragma once

#include <string>

#include "graph/base/io.h"
#include "graph/base/result.h"
#include "runtime/checkpoint/store.h"

namespace xrun::runtime {

// The name that put_aside would give to the directory: the first of NAME.1, NAME.2, … that is free.
std::string aside_name(const std::string& directory);

// Renames the directory if it has checkpoints, with its log and all else that is in it, and makes an empty one in its
// place. Returns the new name; empty: there was nothing to move. Errors: those of DirectoryLock::take; XG0711 the
// directory cannot be renamed, or model files or the working directory lie in it.
Result<std::string> put_aside(const std::string& directory, Io& io);

// Calls put_aside for the directory of checkpoints, or of second copies, of a run that begins anew and may overwrite.
Status make_room(const CheckpointOptions& options, const std::string& directory);

// XG0722: a run that begins anew would write over the checkpoints in `directory`, of which `newest` is the newest.
Error would_write_over(const std::string& directory, const std::string& newest);

}  // namespace xrun::runtime
