// Handles a directory of checkpoints in which a run starts anew (`--resume never`): the checkpoints of an earlier run
// in it are kept under another name.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/store.h"

namespace xrun::runtime {

// Returns the name that put_aside would give to the directory NAME: the first unused name of NAME.1, NAME.2, …
std::string aside_name(const std::string& directory);

// If the directory has checkpoints, renames it, with its log and all its contents, and creates an empty directory in
// its place. Returns the new name; empty: there was nothing to rename. Errors: those of DirectoryLock::take; XG0711 the
// directory cannot be renamed, or contains model files or the working directory.
Result<std::string> put_aside(const std::string& directory, Io& io);

// Calls put_aside for `directory`, the directory of checkpoints or of second copies, if the run starts anew and
// CheckpointOptions::overwrite is set.
Status make_room(const CheckpointOptions& options, const std::string& directory);

// XG0722: a run that starts anew would overwrite the checkpoints in `directory`; `newest` is the newest of them.
Error would_write_over(const std::string& directory, const std::string& newest);

}  // namespace xrun::runtime
