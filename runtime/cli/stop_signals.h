// Signals that ask a run to stop (docs/command.md, "Exit codes"): the first one asks for a clean end, a second one ends
// the process at once.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace xrun::cli {

// The handlers of a process and the thread that tells of the first signal. One object at a time: signals belong to the
// process. The handlers stay when the object is gone, and so does the request.
class StopSignals {
 public:
  // Installs the handlers of SIGINT, SIGTERM, SIGUSR1, SIGHUP (unless the run was told to ignore it) and SIGPIPE.
  // `on_request` is called once, at once after the first signal, from a thread of this object; a lost reader of the
  // output (SIGPIPE) asks for the stop and is not told of, because nobody would read it.
  explicit StopSignals(std::function<void()> on_request);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Set by the first signal, never reset.
  static const std::atomic<bool>& requested();

 private:
  std::thread thread_;
};

}  // namespace xrun::cli
