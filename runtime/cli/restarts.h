// `xrun train --restarts N -- COMMAND`: runs a command that trains, and starts it again where it ended for a reason
// that a new start from the last checkpoint may mend (docs/command.md, "Restarts").
#pragma once

#include <string>
#include <vector>

#include "graph/base/units.h"
#include "runtime/cli/options.h"

namespace xrun::cli {

struct RestartArgs {
  bool asked_for = false;            // by --restarts or its variable
  int restarts = -1;                 // at most; -1: not given
  std::vector<std::string> command;  // the words behind `--`
};

// Where the words ask for restarts, takes the command behind `--` out of them; gives the number of words that are left.
int take_command(int argc, const char* const* argv, RestartArgs& args);

// Whether a command that ended with this exit code (128 + its signal, as in a shell) is started again: it stopped
// early, a rank of it was lost or killed, or the world failed it. Wrong input fails again, and a person who interrupts
// a run means it.
bool is_worth_restart(int exit_code);

// Whether a launcher that ended with this code did so for want of a host, which may come back: it could not begin its
// ranks and could before, or it had ranks, none of which has refused its input. `said`: what ranks said of their own
// ends (rank_exits.h); `had_ranks`, `has_ranks`: whether a launcher had ranks in a start before, and in this one.
bool misses_host(int exit_code, const std::vector<int>& said, bool had_ranks, bool has_ranks);

// How long to wait before the next start, after so many ends in a row that came at once.
Seconds wait_before_restart(int ends_at_once);

// Gives the exit code of the last start, 75 if a signal came between two starts, or 2 where the command cannot be
// started or is not told. A signal that asks for a stop goes to the command as SIGUSR1, which launchers pass on to all
// ranks. `file`: what was named before `--`, which is refused.
int run_restarts(const GlobalOptions& options, const RestartArgs& args, const std::string& file);

}  // namespace xrun::cli
