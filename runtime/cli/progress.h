// What a run shows while it goes on (docs/command.md, "Progress"): a redrawn bar, greppable lines, or JSON events.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "runtime/cli/console.h"
#include "runtime/train/events.h"

namespace xrun::cli {

// `mode`: auto (bar on a terminal, else plain), tty, plain, json (to stdout), none.
std::unique_ptr<runtime::EventSink> make_progress(const std::string& mode, const Console& console);

// The system's time in seconds since 1970.
double unix_time();

// Where progress goes and what its clock is: the console, or what a test has.
struct ProgressPort {
  std::function<void(std::string_view)> write;
  std::function<double()> now;  // seconds since 1970
  int columns = 80;
  bool unicode = false;
};

// The table of `--profile`: device by device what a step does, its time, its share, and what was predicted.
std::string profile_text(const runtime::ProfileEvent& profile);

// What a run says when it is asked to stop, and when it has: where it is saved and how it goes on.
inline constexpr std::string_view kStopping =
    "after this step, with a checkpoint; a second signal ends the run at once";
std::string stop_text(const runtime::EndEvent& end);

// Calls `beat` again and again from a thread of its own until it is destroyed. A pause can be told in no other way: in
// a step the thread of the trainer computes itself or sleeps until the devices are through.
class Pulse {
 public:
  explicit Pulse(std::function<void()> beat);

 private:
  std::jthread thread_;
};

}  // namespace xrun::cli
