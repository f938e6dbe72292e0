// Joins the processes that a launcher started together, and compares their commands.
#pragma once

#include <memory>
#include <string>
#include <string_view>
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

// The two steps of join_world. Ranks exchange their commands as texts; the text of a command that needs only one
// process begins with kAlone. compare_commands checks that no rank runs a command that conflicts with `mine`, and
// returns the commands that all ranks sent.
constexpr std::string_view kAlone = "alone ";
Result<std::unique_ptr<runtime::World>> connect_ranks(const GlobalOptions& options, bool direct);
Result<std::vector<std::string>> compare_commands(runtime::World& world, const std::string& mine);

// Keeps a world whose run fails before it begins until this process ends. The end of a world waits for all ranks, and
// errors are printed by callers: if a rank that prints nothing ended first, the launcher would kill the rank that
// prints.
void keep_until_exit(std::unique_ptr<runtime::World> world);

// Removes the message from the error of a call that all ranks made together, except on the rank that prints it.
Error for_one(const runtime::World& world, Error error);

}  // namespace xrun::cli
