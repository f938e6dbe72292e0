// `xrun train --restarts N -- COMMAND`: runs a training command, and starts it again if it ended for a reason that a
// restart from the last checkpoint may fix (docs/reference/command/several_processes.md, "Restarts").
#pragma once

#include <string>
#include <vector>

#include "graph/base/units.h"
#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cluster/rank_exits.h"

namespace xrun::cli {

struct RestartArgs {
  bool asked_for = false;            // --restarts or its variable is set
  int restarts = -1;                 // largest number of restarts; -1: not given
  std::vector<std::string> command;  // the arguments after `--`
};

// If the arguments ask for restarts, moves the command after `--` into `args`. Returns the number of arguments before
// `--`, or of all arguments if there are no restarts.
int take_command(int argc, const char* const* argv, RestartArgs& args);

// Whether to restart a command that ended with this exit code (128 + its signal, as in a shell). It is restarted if it
// stopped early or lost a rank (75), if the environment made it fail (4), or if a signal killed it. SIGINT and SIGTERM
// do not count, since a user sends them. Wrong input is not restarted, since it would fail again.
bool is_worth_restart(int exit_code);

// Whether a launcher may have ended with this code because a host is missing, which may come back: its ranks were
// killed or lost other ranks, or it could start its ranks before and now cannot.
//   said    the reports of the ranks in this start
//   before  a launcher had ranks on this machine in an earlier start
//   now     a launcher had ranks on this machine in this start, according to stuck_launcher.h or to the ranks
bool misses_host(int exit_code, const RankReports& said, bool before, bool now);

// Returns the exit code that decides about a restart. This is the command's code, except for MPICH's launcher, which at
// times ends with 0 after it has passed on a signal, although no rank ended with 0. Then it is the lowest code of the
// ranks, since a rank that rejects its input (1) counts more than ranks that lost it (75).
int exit_of_ranks(int exit_code, const RankReports& said);

// The wait before the next start, if this many starts in a row ended early.
Seconds wait_before_restart(int ends_at_once);

// Runs the command with its restarts. Returns the exit code of the last start; 75 if a stop was requested and the
// command died of a signal or was not running; 2 if the command is missing or cannot be started. A request to stop
// reaches the command as SIGUSR1, which launchers pass on to all ranks. `file`: a file named before `--`, which is an
// error.
Outcome<int> run_restarts(const GlobalOptions& options, const RestartArgs& args, const std::string& file);

}  // namespace xrun::cli
