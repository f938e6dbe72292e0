// Whether a launcher (mpirun, srun) started this process as one of several, and the module that talks to the others. A
// process that is alone never touches MPI (docs/decisions/0022-mpi-is-a-module.md).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "graph/base/result.h"
#include "runtime/comm/ranks/messenger.h"

namespace xrun::cli {

struct Launch {
  int count = 1;  // processes that were started together; 0: the launcher does not say
  int rank = 0;   // of this one, as the launcher says it
};

// What the variables of the environment say. `variable`: null where it is not set. Errors: kUsage XG0832, several
// processes were started so that they cannot find each other.
Result<Launch> find_launch(const std::function<const char*(const char* name)>& variable);

// Loads the module and begins MPI. To be called on the thread that makes all calls of MPI. Null: `error` says why.
std::unique_ptr<runtime::Messenger> load_mpi(std::string& error);

// Why there is no MPI to load; empty: there is. Loads nothing.
std::string missing_mpi();

}  // namespace xrun::cli
