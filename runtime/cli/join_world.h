// Joins the processes that a launcher started together, and compares their commands: one on which all of them work, or
// one that works in one process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/cli/options.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::cli {

// Waits for all ranks that a launcher has started with this process, and checks that all of them run this command, such
// as "train". Null: the process runs alone. `direct`: see World::join. An error has a message on one rank only. Errors:
// XG0832 MPI is missing or does not connect the ranks; XG0833 another rank runs another command; XG0834.
Result<std::unique_ptr<runtime::World>> join_world(const GlobalOptions& options, const std::string& command,
                                                   bool direct = true);

// Runs a command that works in one process. If a launcher started several processes with the same `words` in one
// directory, rank 0 runs it, and all end with its exit code; processes with different words all run their own.
int run_once(const GlobalOptions& options, const std::string& command, const std::vector<std::string>& words,
             const std::function<int()>& action);
// The error of a call that all ranks made together, without a message on ranks that do not print it.
Error for_one(const runtime::World& world, Error error);

}  // namespace xrun::cli
