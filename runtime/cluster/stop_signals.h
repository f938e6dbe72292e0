// Signals that ask a run to stop (docs/reference/command/overview.md, "Exit codes"). The first signal asks for a clean
// end; a second one ends the process at once.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace xrun::cli {

// Installs the signal handlers of the process, and owns the thread that reports the first signal. At most one object
// may exist at a time, since signals belong to the process. The handlers and the request to stop remain after the
// object is destroyed.
class StopSignals {
 public:
  // Installs the handlers of SIGINT, SIGTERM, SIGUSR1, SIGHUP (unless the run was told to ignore it) and SIGPIPE.
  // `on_request` is called once, right after the first signal, on a thread of this object. SIGPIPE means that nobody
  // reads the output any more. It also requests the stop, but without this call, because nobody would read a message.
  explicit StopSignals(std::function<void()> on_request);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Whether the run was asked to stop: set by the first signal, never reset.
  static const std::atomic<bool>& requested();

 private:
  std::thread thread_;
};

}  // namespace xrun::cli
