// Finds out whether a launcher (mpirun, mpiexec, srun) started this process as one of several, and loads the module of
// the launcher's MPI for messages to the others. A single process never touches MPI
// (docs/decisions/0022-mpi-is-a-module.md).
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
  int count = 1;          // number of processes that were started together; 0: unknown
  int rank = 0;           // number of this process, according to the launcher
  std::vector<Mpi> mpis;  // MPI libraries that this launcher supports, the likeliest first; empty: no launcher
};

// Reads the launcher's environment variables; `variable` returns null for a variable that is not set. Errors: kUsage
// XG0832 several processes were started that cannot find one another. Only the first process gets an error message.
Result<Launch> find_launch(const std::function<const char*(const char* name)>& variable);

// Whether this xrun was built with this MPI, so that its module exists.
bool has_module(Mpi mpi);

// Returns the first MPI of the launch for which `is_built` is true. REQUIRES: a launcher started the process. Errors:
// kWorld XG0832 xrun was built without all of them.
Result<Mpi> choose_mpi(const Launch& launch, const std::function<bool(Mpi)>& is_built = has_module);

// Returns a help for the user: how to start processes that this MPI connects.
std::string launcher_help(Mpi mpi);

// Loads the module and starts MPI. Returns null on failure, and sets `error` to the cause. REQUIRES: called on the
// thread that makes all MPI calls.
std::unique_ptr<runtime::Messenger> load_mpi(Mpi mpi, std::string& error);

}  // namespace xrun::cli
