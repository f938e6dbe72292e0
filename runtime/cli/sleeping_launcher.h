// Wakes the launcher of a run that has lost a rank. The launcher of Open MPI sends the other ranks SIGCONT, SIGTERM and
// SIGKILL, sleeps for a second after each of the first two, and forwards nothing that the ranks print meanwhile.
#pragma once

#include <atomic>

#include "runtime/cli/launcher.h"

namespace xrun::cli {

// Sends SIGCHLD, which ends such a sleep and is harmless otherwise, to the launcher or daemon of Open MPI that started
// this process. Repeats it until `asked_to_stop` (StopSignals::requested) is set, for a tenth of a second at most. The
// launcher then sleeps again, until this process ends. Does nothing after another launch, or if the parent is another
// program, such as a script.
void wake_launcher(const Launch& launch, const std::atomic<bool>& asked_to_stop);

}  // namespace xrun::cli
