// Progress of a run (docs/reference/command/progress.md, "Progress"): a redrawn bar, greppable lines, or JSON events.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/cli/console/console.h"
#include "runtime/train/events/events.h"

namespace xrun::cli {

// `mode`: auto (bar on a terminal, else plain), tty, plain, json (to stdout), none.
std::unique_ptr<runtime::EventSink> make_progress(const std::string& mode, const Console& console);

// The system time in seconds since 1970.
double unix_time();

// The output and the clock of progress: those of the console, or those of a test.
struct ProgressPort {
  std::function<void(std::string_view)> write;
  std::function<double()> now;  // seconds since 1970
  int columns = 80;
  bool unicode = false;
};

// The table of `--profile`: for each device the parts of a step, their time, share and predicted time.
std::string profile_text(const runtime::ProfileEvent& profile);

// Texts about a run that is stopping or has stopped: where it is saved, and how to continue it.
inline constexpr std::string_view kStopping =
    "after this step, with a checkpoint; a second signal ends the run at once";
std::string stop_text(const runtime::EndEvent& end);
// For a run on several hosts: "a step sent 3.0 MiB from the busiest of 4 hosts to the others".
std::string network_text(const runtime::EndEvent& end);

// "`label` measured on 118 of 120 rows".
std::string labels_text(const runtime::LabelCount& count);

// Calls `beat` every half second from its own thread until it is destroyed. The trainer's thread cannot report a pause,
// because in a step it computes or sleeps until the devices are done.
class Pulse {
 public:
  explicit Pulse(std::function<void()> beat);

 private:
  std::jthread thread_;
};

}  // namespace xrun::cli
