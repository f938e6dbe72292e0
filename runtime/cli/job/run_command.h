// The runners of commands: they run a command in the processes that it needs, print the failure with which it ends, and
// return its exit code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/cli/console/options.h"
#include "runtime/cli/console/outcome.h"
#include "runtime/cli/job/job.h"

namespace xrun::cli {

// The exit code of a command that has ended. Prints its failure, if it has one.
int finish(const Outcome<int>& ended, const GlobalOptions& options);

// Runs a command that needs only one process. If a launcher started several processes with equal `words` in one
// directory, rank 0 runs the command and all end with its exit code. Processes with different words each run their own
// command.
int run_once(const GlobalOptions& options, const std::string& command, const std::vector<std::string>& words,
             const std::function<Outcome<int>()>& action);

// Runs a command whose processes work together. A failure is printed before Job::work is destroyed and before the ranks
// disconnect, since both may wait, and a launcher ends all ranks soon after one of them has ended.
//   at_end  called after Job::work is destroyed, before the ranks disconnect; may be null
int run_in_job(const GlobalOptions& options, const std::string& command,
               const std::function<Outcome<int>(Job&)>& action,
               const std::function<void(const Job&)>& at_end = nullptr);

// Runs a command on rank 0 for the hosts of all ranks, which end with its exit code. `action` gets the options with the
// cores, the memory and the network of these hosts.
int run_for_job(const GlobalOptions& options, const std::string& command,
                const std::function<Outcome<int>(const GlobalOptions&)>& action);

}  // namespace xrun::cli
