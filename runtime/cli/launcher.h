// Finds out whether a launcher (mpirun, srun) started this process as one of several, and loads the module that talks
// to the others. A single process never touches MPI (docs/decisions/0022-mpi-is-a-module.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "graph/base/result.h"
#include "runtime/comm/ranks/messenger.h"

namespace xrun::cli {

struct Launch {
  int count = 1;  // processes that were started together; 0: the launcher does not say
  int rank = 0;   // of this process, according to the launcher
};

// Reads the launcher's environment variables; `variable` gives null for one that is not set. Errors: kUsage XG0832,
// several processes were started that cannot find each other.
Result<Launch> find_launch(const std::function<const char*(const char* name)>& variable);

// Loads the module and starts MPI. REQUIRES: called on the thread that makes all MPI calls. Null: `error` says why.
std::unique_ptr<runtime::Messenger> load_mpi(std::string& error);

// The reason why MPI cannot be loaded; empty: the module is there. Loads nothing.
std::string missing_mpi();

}  // namespace xrun::cli
