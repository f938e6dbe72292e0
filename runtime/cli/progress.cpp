#include "runtime/cli/progress.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "runtime/cli/bar_progress.h"
#include "runtime/cli/json_progress.h"
#include "runtime/cli/plain_progress.h"

namespace xrun::cli {
namespace {

// A sink with a pulse: the pulse ends first.
template <typename Sink>
class Beating final : public Sink {
 public:
  explicit Beating(ProgressPort port) : Sink(std::move(port)), pulse_([this] { this->beat(); }) {}

 private:
  Pulse pulse_;
};

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

Pulse::Pulse(std::function<void()> beat)
    : thread_([beat = std::move(beat)](const std::stop_token& stop) {
        std::mutex mutex;
        std::condition_variable_any wake;
        std::unique_lock lock(mutex);
        while (!stop.stop_requested()) {
          wake.wait_for(lock, stop, std::chrono::milliseconds(500), [] { return false; });
          if (!stop.stop_requested()) {
            beat();
          }
        }
      }) {}

std::unique_ptr<runtime::EventSink> make_progress(const std::string& mode, const Console& console) {
  const bool json = mode == "json";
  ProgressPort port{.write = [&console, json](std::string_view text) { json ? console.out(text) : console.note(text); },
                    .now = now,
                    .columns = console.columns(),
                    .unicode = console.unicode()};
  if (json) {
    return std::make_unique<JsonProgress>(std::move(port));
  }
  if (mode == "none") {
    return std::make_unique<runtime::EventSink>();
  }
  if (mode == "tty" || (mode == "auto" && console.stderr_is_tty())) {
    return std::make_unique<Beating<BarProgress>>(std::move(port));
  }
  return std::make_unique<Beating<PlainProgress>>(std::move(port));
}

}  // namespace xrun::cli
