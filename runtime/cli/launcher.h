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
  int rank = 0;           // number of this process, according to the launcher
  std::vector<Mpi> mpis;  // those that the launcher can connect, the likeliest first; empty: no launcher
};

// Reads the launcher's environment variables; `variable` returns null for one that is not set. Errors: kUsage XG0832,
// several processes were started that cannot find each other; only the first of them has the message.
Result<Launch> find_launch(const std::function<const char*(const char* name)>& variable);

// Whether this xrun was built with this MPI, that is, has its module.
bool has_module(Mpi mpi);

// The first MPI of the launch that this xrun was built with, according to `is_built`. REQUIRES: the process was started
// by a launcher. Errors: kWorld XG0832, xrun was built without all of them.
Result<Mpi> choose_mpi(const Launch& launch, const std::function<bool(Mpi)>& is_built = has_module);

// A help for the user: how to start processes that this MPI connects.
std::string launcher_help(Mpi mpi);

// Loads the module and starts MPI. REQUIRES: called on the thread that makes all MPI calls. Null: `error` has the
// cause.
std::unique_ptr<runtime::Messenger> load_mpi(Mpi mpi, std::string& error);

}  // namespace xrun::cli
