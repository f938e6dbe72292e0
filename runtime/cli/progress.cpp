#include "runtime/cli/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xrun::cli {
namespace {

using runtime::CheckpointEvent;
using runtime::EndEvent;
using runtime::EvalEvent;
using runtime::EventSink;
using runtime::StartEvent;
using runtime::StepReport;
using runtime::WarnEvent;
using Json = nlohmann::ordered_json;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string stamp(double seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

double gib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string eval_line(const EvalEvent& event) {
  std::string line;
  for (const auto& [name, value] : event.metrics) {
    line += fmt::format("{}{} {}", line.empty() ? "" : "   ", name, percent(value));
  }
  return line;
}

Json by_device(const std::vector<runtime::DeviceTimes>& devices, Seconds runtime::DeviceTimes::*part) {
  Json list = Json::array();
  for (const runtime::DeviceTimes& times : devices) {
    list.push_back(times.*part);
  }
  return list;
}

// Warnings and phases, the same for lines and bar.
std::string warning_line(const WarnEvent& event) { return fmt::format("warning[{}]: {}\n", event.code, event.message); }

// A line that wraps would break the count of rows to erase: what does not fit goes, by whole fields.
std::string clip_lines(const std::string& text, int columns) {
  constexpr std::string_view kGap = "   ";
  std::string out;
  int column = 0;
  size_t field_end = 0;  // in `out`: where the last field that fits has its end
  bool full = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      column = 0;
      full = false;
      out += c;
      field_end = out.size();
      continue;
    }
    if (std::string_view(text).substr(i).starts_with(kGap) && !full) {
      field_end = out.size();
    }
    column += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    if (!full && column >= columns) {
      full = true;
      out.resize(field_end);
    }
    if (!full) {
      out += c;
    }
  }
  return out;
}

std::string loss_text(double loss) { return std::isnan(loss) ? "" : fmt::format("   loss {:.4g}", loss); }

std::string repeat(const char* piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    out += piece;
  }
  return out;
}

class PlainProgress : public EventSink {
 public:
  explicit PlainProgress(const Console& console) : console_(console) {}

  void on_start(const StartEvent& e) override {
    console_.note(fmt::format("{} start model={} plan={} devices={} steps={} batch={} samples={} mem_gib={:.2f}\n",
                              stamp(now()), e.model, e.plan, e.devices, e.steps, e.batch, e.samples, gib(e.memory)));
  }
  void on_resume(int64_t step, const std::string& path) override {
    console_.note(fmt::format("{} resumed step={} from={}\n", stamp(now()), step, path));
  }
  void on_step(const StepReport& step, bool due) override {
    if (due) {
      console_.note(plain_line(step, now()) + "\n");
    }
  }
  void on_eval(const EvalEvent& e) override {
    std::string line = fmt::format("{} eval step={}", stamp(now()), e.step);
    for (const auto& [name, value] : e.metrics) {
      line += fmt::format(" {}={:.4f}", name, value);
    }
    console_.note(line + fmt::format(" seconds={:.1f}\n", e.seconds));
  }
  void on_checkpoint(const CheckpointEvent& e) override {
    console_.note(fmt::format("{} checkpoint step={} path={} mib={:.1f} seconds={:.2f}\n", stamp(now()), e.step, e.path,
                              static_cast<double>(e.bytes) / static_cast<double>(kMiB), e.seconds));
  }
  void on_warn(const WarnEvent& e) override { console_.note(warning_line(e)); }
  void on_end(const EndEvent& e) override {
    console_.note(fmt::format("{} end step={} loss={:.5g} weights={} seconds={:.1f} exit={}{}\n", stamp(now()), e.step,
                              e.loss, e.weights, e.seconds, e.exit,
                              e.bad_samples > 0 ? fmt::format(" bad_samples={}", e.bad_samples) : ""));
  }

 private:
  const Console& console_;
};

class JsonProgress : public EventSink {
 public:
  explicit JsonProgress(const Console& console) : console_(console) {}

  void on_start(const StartEvent& e) override {
    emit("start", {{"model", e.model},
                   {"devices", e.devices},
                   {"first_step", e.first_step},
                   {"steps", e.steps},
                   {"steps_per_epoch", e.steps_per_epoch},
                   {"samples", e.samples},
                   {"batch", e.batch},
                   {"predicted_step_s", e.predicted_step},
                   {"memory", e.memory}});
  }
  void on_plan(const std::string& plan) override { emit("plan", {{"plan", plan}}); }
  void on_resume(int64_t step, const std::string& path) override { emit("resume", {{"step", step}, {"path", path}}); }
  void on_step(const StepReport& s, bool due) override {
    if (!due) {
      return;
    }
    Json event{{"step", s.step},
               {"epoch", s.epoch},
               {"loss", s.loss},
               {"lr", s.lr},
               {"images_per_s", s.images_per_second},
               {"step_s", s.seconds},
               {"compute_s", s.compute},
               {"comm_s", s.exposed_comm},
               {"busy_s", by_device(s.devices, &runtime::DeviceTimes::busy)},
               {"bubble_s", by_device(s.devices, &runtime::DeviceTimes::idle)},
               {"data_s", s.data_wait},
               {"memory", s.memory}};
    for (const auto& [name, value] : s.metrics) {
      event[name] = value;
    }
    if (s.grad_norm > 0) {
      event["grad_norm"] = s.grad_norm;
    }
    emit("step", event);
  }
  void on_eval(const EvalEvent& e) override {
    Json metrics = Json::object();
    for (const auto& [name, value] : e.metrics) {
      metrics[name] = value;
    }
    Json samples = Json::object();
    for (const auto& [name, count] : e.samples) {
      samples[name] = count;
    }
    emit("eval", {{"step", e.step}, {"metrics", metrics}, {"samples", samples}, {"seconds", e.seconds}});
  }
  void on_checkpoint(const CheckpointEvent& e) override {
    emit("checkpoint", {{"step", e.step}, {"path", e.path}, {"bytes", e.bytes}, {"seconds", e.seconds}});
  }
  void on_warn(const WarnEvent& e) override { emit("warn", {{"code", e.code}, {"message", e.message}}); }
  void on_end(const EndEvent& e) override {
    emit("end", {{"step", e.step},
                 {"loss", e.loss},
                 {"weights", e.weights},
                 {"exit", e.exit},
                 {"seconds", e.seconds},
                 {"bad_samples", e.bad_samples},
                 {"busy_s", by_device(e.devices, &runtime::DeviceTimes::busy)},
                 {"bubble_s", by_device(e.devices, &runtime::DeviceTimes::idle)},
                 {"arenas", e.arenas},
                 {"peak_before_arenas", e.peak_before_arenas},
                 {"peak_resident", e.peak_resident}});
  }

 private:
  void emit(const char* kind, const Json& fields) {
    Json event{{"v", 1}, {"t", kind}, {"time", now()}};
    event.update(fields);
    console_.out(event.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  const Console& console_;
};

// The bar: at most ten drawings a second, none in the first half second; finished phases stay in the scrollback.
class BarProgress : public EventSink {
 public:
  explicit BarProgress(const Console& console) : console_(console), began_(now()) {}

  void on_start(const StartEvent& e) override { state_.start = e; }
  void on_resume(int64_t step, const std::string& path) override {
    line(fmt::format("  Resumed   {} (step {})\n", path, format_count(step)));
  }
  void on_step(const StepReport& step, bool) override {
    state_.step = step;
    const double time = now();
    history_.push_back({time, step.step});
    while (history_.size() > 2 && time - history_.front().first > 30) {
      history_.pop_front();
    }
    const double span = time - history_.front().first;
    state_.rate = span > 0 ? static_cast<double>(step.step - history_.front().second) / span : 0;
    if (time - began_ > 0.5 && time - drawn_ > 0.1) {
      draw(time);
    }
  }
  void on_eval(const EvalEvent& e) override {
    line(fmt::format("  {:<60}step {}\n", eval_line(e), format_count(e.step)));
  }
  void on_checkpoint(const CheckpointEvent& e) override {
    line(fmt::format("  Saved     {} ({}, {})\n", e.path, format_bytes(e.bytes), format_seconds(e.seconds)));
  }
  void on_warn(const WarnEvent& e) override { line(warning_line(e)); }
  void on_end(const EndEvent& e) override {
    draw(now());
    rows_ = 0;
    console_.note(fmt::format("  Finished  step {}{}   {}   weights {}\n", format_count(e.step), loss_text(e.loss),
                              format_seconds(e.seconds), e.weights.substr(0, 16)));
  }

 private:
  void erase() {
    if (rows_ > 0) {
      console_.note(fmt::format("\033[{}A\033[J", rows_));
      rows_ = 0;
    }
  }
  void line(const std::string& text) {
    erase();
    console_.note(text);
  }
  void draw(double time) {
    if (state_.step.step == 0) {
      return;
    }
    erase();
    const std::string text = clip_lines(bar_text(state_, console_.columns(), console_.unicode()), console_.columns());
    console_.note(text);
    rows_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
    drawn_ = time;
  }

  const Console& console_;
  BarState state_;
  std::deque<std::pair<double, int64_t>> history_;
  double began_ = 0;
  double drawn_ = 0;
  int rows_ = 0;
};

}  // namespace

std::string plain_line(const StepReport& s, double seconds) {
  std::string line = fmt::format("{} step={} epoch={:.3f} loss={:.5g}", stamp(seconds), s.step, s.epoch, s.loss);
  for (const auto& [name, value] : s.metrics) {
    line += fmt::format(" {}={:.4f}", name, value);
  }
  line +=
      fmt::format(" lr={:.4g} images_per_s={:.0f} data_ms={:.1f} comm_ms={:.1f} bubble_ms={:.1f} mem_gib={:.2f}", s.lr,
                  s.images_per_second, s.data_wait * 1e3, s.exposed_comm * 1e3, s.bubble * 1e3, gib(s.memory));
  return s.grad_norm > 0 ? line + fmt::format(" grad_norm={:.4g}", s.grad_norm) : line;
}

std::string bar_text(const BarState& state, int columns, bool unicode) {
  const StepReport& s = state.step;
  const int64_t steps = std::max<int64_t>(1, state.start.steps);
  const double share = std::clamp(static_cast<double>(s.step) / static_cast<double>(steps), 0.0, 1.0);
  const double epochs =
      state.start.steps_per_epoch > 0
          ? std::ceil(static_cast<double>(steps) / static_cast<double>(state.start.steps_per_epoch) - 1e-9)
          : 1;
  const int epoch = static_cast<int>(std::min(epochs, std::floor(s.epoch - 1e-9) + 1));
  const int width = std::clamp(columns - 60, 8, 24);
  const int filled = static_cast<int>(std::lround(share * width));
  std::string left;
  if (state.rate > 0) {
    left = "   " + format_seconds(static_cast<double>(steps - s.step) / state.rate) + " left";
  }
  std::string out =
      fmt::format("  epoch {}/{:.0f} [{}{}] {:.0f} %   step {} of {}{}\n", std::max(1, epoch), epochs,
                  repeat(unicode ? "\u2501" : "#", filled), std::string(static_cast<size_t>(width - filled), ' '),
                  std::floor(100 * share), format_count(s.step), format_count(steps), left);
  out += fmt::format("  loss {:.4g}   lr {:.4g}   {} images/s", s.loss, s.lr,
                     format_count(std::llround(s.images_per_second)));
  if (state.start.predicted_step > 0 && s.images_per_second > 0) {
    const double planned = static_cast<double>(state.start.batch) / state.start.predicted_step;
    out += fmt::format(" ({:.0f} % of plan)", 100 * s.images_per_second / planned);
  }
  for (const auto& [name, value] : s.metrics) {
    out += fmt::format("   {} {}", name, percent(value));
  }
  out += s.grad_norm > 0 ? fmt::format("   grad norm {:.3g}\n", s.grad_norm) : "\n";
  out +=
      fmt::format("  data {:.1f} ms waiting   comm {:.1f} ms exposed   {}memory {}   {} {}\n", s.data_wait * 1e3,
                  s.exposed_comm * 1e3, state.start.devices > 1 ? fmt::format("idle {:.1f} ms   ", s.bubble * 1e3) : "",
                  format_bytes(s.memory), state.start.devices, state.start.devices == 1 ? "device" : "devices");
  return out;
}

std::unique_ptr<EventSink> make_progress(const std::string& mode, const Console& console) {
  if (mode == "json") {
    return std::make_unique<JsonProgress>(console);
  }
  if (mode == "none") {
    return std::make_unique<EventSink>();
  }
  if (mode == "tty" || (mode == "auto" && console.stderr_is_tty())) {
    return std::make_unique<BarProgress>(console);
  }
  return std::make_unique<PlainProgress>(console);
}

}  // namespace xrun::cli
