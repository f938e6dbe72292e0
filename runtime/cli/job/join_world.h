// Joins the processes that a launcher started together, and compares their commands. Some commands use all processes;
// others need only one of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/cli/console/options.h"
#include "runtime/comm/ranks/world.h"

namespace xrun::cli {

// Waits for all ranks that a launcher started with this process, and checks that all of them run this command, such as
// "train". Returns null if the process runs alone. `direct`: see World::join. Errors, with a message on one rank only:
// XG0832 MPI is missing or does not connect the ranks; XG0833 another rank runs another command; XG0834.
Result<std::unique_ptr<runtime::World>> join_world(const GlobalOptions& options, const std::string& command,
                                                   bool direct = true);

// Runs a command that needs only one process. If a launcher started several processes with equal `words` in one
// directory, rank 0 runs the command and all end with its exit code. Processes with different words each run their own
// command.
int run_once(const GlobalOptions& options, const std::string& command, const std::vector<std::string>& words,
             const std::function<int()>& action);
// Removes the message from the error of a call that all ranks made together, except on the rank that prints it.
Error for_one(const runtime::World& world, Error error);

}  // namespace xrun::cli
