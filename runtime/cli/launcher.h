// Finds out whether a launcher (mpirun, mpiexec, srun) started this process as one of several, and loads the module of
// its MPI, which talks to the others. A single process never touches MPI (docs/decisions/0022-mpi-is-a-module.md).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/comm/ranks/messenger.h"

namespace xrun::cli {

enum class Mpi { kOpenMpi, kMpich };

struct Launch {
  int count = 1;          // processes that were started together; 0: the launcher does not say
  int rank = 0;           // of this process, according to the launcher
  std::vector<Mpi> mpis;  // those that the launcher can connect, the likeliest first; empty: there is no launcher
};

// Reads the launcher's environment variables; `variable` gives null for one that is not set. Errors: kUsage XG0832,
// several processes were started that cannot find each other; it has a message in the first of them only.
Result<Launch> find_launch(const std::function<const char*(const char* name)>& variable);

// Whether this xrun was built with this MPI: its module is there.
bool has_module(Mpi mpi);

// The first MPI of the launch that this xrun was built with; `is_built` tells for each. REQUIRES: a launch by a
// launcher. Errors: kWorld XG0832, it was built with none of them.
Result<Mpi> choose_mpi(const Launch& launch, const std::function<bool(Mpi)>& is_built = has_module);

// How to start processes that this MPI connects, as a help for the user.
std::string launcher_help(Mpi mpi);

// Loads the module and starts MPI. REQUIRES: called on the thread that makes all MPI calls. Null: `error` says why.
std::unique_ptr<runtime::Messenger> load_mpi(Mpi mpi, std::string& error);

}  // namespace xrun::cli
