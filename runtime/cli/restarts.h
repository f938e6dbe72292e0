// `xrun train --restarts N -- COMMAND`: runs a training command, and starts it again if it ended for a reason that a
// restart from the last checkpoint may fix (docs/reference/command/several_processes.md, "Restarts").
#pragma once

#include <string>
#include <vector>

#include "graph/base/units.h"
#include "runtime/cli/options.h"
#include "runtime/cli/rank_exits.h"

namespace xrun::cli {

struct RestartArgs {
  bool asked_for = false;            // set by --restarts or its variable
  int restarts = -1;                 // at most; -1: not given
  std::vector<std::string> command;  // the arguments after `--`
};

// If the arguments ask for restarts, moves the command after `--` into `args`; returns the number of arguments before
// it.
int take_command(int argc, const char* const* argv, RestartArgs& args);

// Whether to restart a command that ended with this exit code (128 + its signal, as in a shell): it stopped early or
// lost a rank (75), the environment failed it (4), or a signal killed it. SIGINT and SIGTERM do not count, since they
// are a user's wish; wrong input would fail again.
bool is_worth_restart(int exit_code);

// Whether a launcher may have ended with this code because it misses a host, which may come back: its ranks were killed
// or lost others, or it cannot start its ranks although it could before. `now`: whether a launcher had ranks on this
// machine in this start (according to stuck_launcher.h or to the ranks), `before`: in an earlier start; `said`: the
// reports of the ranks in this start.
bool misses_host(int exit_code, const RankReports& said, bool before, bool now);

// The exit code that decides about a restart: that of the command, unless it is a launcher that ended with 0 although
// no rank did. MPICH's launcher does so at times after it has passed on a signal. Then it is the lowest code of the
// ranks, since a rank that rejects its input (1) counts more than those that lost it (75).
int exit_of_ranks(int exit_code, const RankReports& said);

// The wait before the next start, after this many early ends in a row.
Seconds wait_before_restart(int ends_at_once);

// Returns the exit code of the last start; 75 if a stop was requested and the command died of a signal or was not
// running; 2 if the command is missing or cannot be started. A stop request goes to the command as SIGUSR1, which
// launchers pass on to all ranks. `file`: a file named before `--`, which is rejected.
int run_restarts(const GlobalOptions& options, const RestartArgs& args, const std::string& file);

}  // namespace xrun::cli
