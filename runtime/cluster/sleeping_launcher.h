// Wakes the launcher of a run that has lost a rank. Open MPI's launcher then sends the other ranks SIGCONT, SIGTERM and
// SIGKILL. It sleeps for a second after each of the first two signals, and meanwhile forwards no output of the ranks.
#pragma once

#include <atomic>

#include "runtime/cluster/launcher.h"

namespace xrun::cli {

// If a launcher or daemon of Open MPI started this process, sends it SIGCHLD, which interrupts such a sleep and is
// harmless otherwise. Repeats this until `asked_to_stop` (StopSignals::requested) is set, for at most a tenth of a
// second. After that the launcher sleeps again, until this process ends. Does nothing for other launchers, or if the
// parent process is another program, such as a script.
void wake_launcher(const Launch& launch, const std::atomic<bool>& asked_to_stop);

}  // namespace xrun::cli
