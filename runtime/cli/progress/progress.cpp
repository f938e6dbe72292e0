#include "runtime/cli/progress/progress.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>

#include "graph/base/utf8.h"
#include "planner/report/table.h"
#include "runtime/cli/progress/bar_progress.h"
#include "runtime/cli/progress/json_progress.h"
#include "runtime/cli/progress/plain_progress.h"

namespace xrun::cli {
namespace {

// A sink with a Pulse, which calls the sink's `beat` regularly. The Pulse is destroyed before the sink.
template <typename Sink>
class Beating final : public Sink {
 public:
  explicit Beating(ProgressPort port) : Sink(std::move(port)), pulse_([this] { this->beat(); }) {}

 private:
  Pulse pulse_;
};

}  // namespace

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string profile_text(const runtime::ProfileEvent& e) {
  using planner::Align;
  planner::TextTable table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  const auto add = [&](const std::string& device, const std::string& what, int count, Seconds seconds,
                       const std::string& predicted) {
    table.add({device, what, count > 0 ? format_count(count) : "", format_seconds(seconds),
               e.step > 0 ? fmt::format("{:.1f} %", 100 * seconds / e.step) : "", predicted});
  };
  table.add({"device", "what", "a step", "time", "share", "predicted"});
  int device = -1;
  for (const runtime::ProfileRow& row : e.rows) {
    add(row.device == device ? "" : fmt::format("cpu {}", row.device), row.what, row.count, row.seconds,
        e.predicted_step > 0 ? format_seconds(row.predicted) : "");
    device = row.device;
  }
  add("host", "waiting for data", 0, e.data_wait, "");
  add("", "before and after the devices", 0, e.outside, "");
  const int64_t last = e.first_step + e.steps - 1;
  return fmt::format("  Profile   {} a step{}, mean of steps {} to {}\n", format_seconds(e.step),
                     e.predicted_step > 0 ? ", predicted " + format_seconds(e.predicted_step) : "",
                     format_count(e.first_step), format_count(last)) +
         table.text("    ");
}

std::string network_text(const runtime::EndEvent& e) {
  return fmt::format("a step sent {} from the busiest of {} hosts to the others",
                     format_bytes(std::ranges::max(e.host_sent)), e.host_sent.size());
}

std::string labels_text(const runtime::LabelCount& count) {
  return fmt::format("`{}` measured on {} of {} {}", count.input, format_count(count.labels), format_count(count.all),
                     count.positions ? "positions" : "rows");
}

std::string stop_text(const runtime::EndEvent& e) {
  std::string text = fmt::format("at step {} of {}", format_count(e.step), format_count(e.steps));
  text += e.saved.empty() ? ", nothing was saved" : ", saved in " + printable_line(e.saved);
  return text + fmt::format("; run the same command{} to continue",
                            e.leave_out.empty() ? "" : " without `" + printable_line(e.leave_out) + "`");
}

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
  ProgressPort port{
      .write = [&console, json](std::string_view text) { json ? console.out_json(text) : console.draw(text); },
      .now = unix_time,
      .columns = console.columns(),
      .unicode = console.unicode()};
  if (json) {
    return std::make_unique<JsonProgress>(std::move(port));
  }
  if (mode == "none") {
    return std::make_unique<runtime::NullSink>();
  }
  if (mode == "tty" || (mode == "auto" && console.stderr_is_tty())) {
    return std::make_unique<Beating<BarProgress>>(std::move(port));
  }
  return std::make_unique<Beating<PlainProgress>>(std::move(port));
}

}  // namespace xrun::cli
