// The bar is drawn below the log: `draw` writes its lines and remembers their number, and `erase` moves the cursor up
// and clears them. A line of the log is written between an `erase` and the next `draw`, so that finished phases scroll
// up and the bar stays last. Lines of the bar are cut to the width of the terminal, since a line that wraps would make
// that number wrong.
// Tests: tests/runtime/cli/progress/progress_test.cpp
#include "runtime/cli/progress/bar_progress.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <variant>

#include "graph/base/counted.h"
#include "graph/base/overloaded.h"
#include "graph/base/utf8.h"
#include "runtime/cli/progress/verified_text.h"

namespace xrun::cli {
namespace {

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

// The lines that events add to the log.

std::string line_of(const runtime::ResumeEvent& e) {
  return fmt::format("  Resumed   {} (step {})", e.path, format_count(e.step));
}

std::string line_of(const runtime::NoteEvent& e) { return "  Note      " + e.message; }

std::string line_of(const runtime::EvalEvent& e) {
  std::string line;
  for (const runtime::Measured& one : e.metrics) {
    line += fmt::format("{}{} {}{}", line.empty() ? "" : "   ", one.key, percent(one.value),
                        one.synthetic ? " (synthetic)" : "");
  }
  for (const runtime::MeasuredSource& one : e.sources) {
    line += one.broken > 0 ? fmt::format("   {} broken of {} left out", format_count(one.broken), one.name) : "";
    for (const runtime::LabelCount& label : one.labels) {
      line += fmt::format("   {}: {}", one.name, labels_text(label));
    }
  }
  return fmt::format("  {:<60}step {}", line, format_count(e.step));
}

std::string line_of(const runtime::GraphEvent& e) {
  return fmt::format("  Graph     nearest classes of `{}` by the weights of step {} ({}{}, waited {})", e.head,
                     format_count(e.of_step), e.recall < 1 ? fmt::format("recall {:.1f} %, ", 100 * e.recall) : "",
                     format_seconds(e.seconds), format_seconds(e.waited));
}

std::string line_of(const runtime::CheckpointEvent& e) {
  const std::string waited = e.waited < e.seconds ? ", steps waited " + format_seconds(e.waited) : "";
  const std::string next = e.interval > 0 ? fmt::format("; next in {}", format_seconds(e.interval)) : "";
  return fmt::format("  Saved     {} ({}, {}{}{})", e.path, format_bytes(e.bytes), format_seconds(e.seconds), waited,
                     next);
}

std::string line_of(const runtime::CopyEvent& e) {
  return fmt::format("  Copied    {} ({}, {})", e.path, format_bytes(e.bytes), format_seconds(e.seconds));
}

std::string line_of(const runtime::WarnEvent& e) { return fmt::format("warning[{}]: {}", e.code, e.message); }

std::string line_of(const runtime::StopEvent& e) {
  return fmt::format("  Stopped   step {}: {}", format_count(e.step), e.reason);
}

std::string line_of(const runtime::InterruptEvent&) { return "  Stopping  " + std::string(kStopping); }

// Cuts each line to `columns` at the end of a field. A line that wraps would make the count of rows to erase wrong.
std::string clip_lines(const std::string& text, int columns) {
  constexpr std::string_view kGap = "   ";
  std::string out;
  int column = 0;
  size_t field_end = 0;  // offset in `out` of the end of the last field that fits
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

// "[######      ] 50 %".
std::string share_text(double share, int columns, bool unicode) {
  const int width = std::clamp(columns - 60, 8, 24);
  const int filled = static_cast<int>(std::lround(share * width));
  return fmt::format("[{}{}] {:.0f} %", repeat(unicode ? "\u2501" : "#", filled),
                     std::string(static_cast<size_t>(width - filled), ' '), std::floor(100 * share));
}

// "8.6 of 74.5 GiB". If both values have one unit, it is printed only once.
std::string memory_text(const runtime::StepReport& step, Bytes usable) {
  std::string used = format_bytes(step.resident > 0 ? step.resident : step.memory);
  if (usable <= 0) {
    return used;
  }
  const std::string most = format_bytes(usable);
  const std::string unit = most.substr(most.find(' '));
  if (used.ends_with(unit)) {
    used.resize(used.size() - unit.size());
  }
  return used + " of " + most;
}

// The number of remaining steps. If the batch grows, the remaining samples count as steps of the current batch size.
double steps_left(const BarState& state, int64_t done) {
  const runtime::StartEvent& start = state.start;
  return start.last_batch == 0
             ? static_cast<double>(start.steps - done)
             : (static_cast<double>(start.all_samples) - state.step.epoch * static_cast<double>(start.samples)) /
                   static_cast<double>(state.step.batch);
}

}  // namespace

std::string bar_text(const BarState& state, int columns, bool unicode) {
  const runtime::StepReport& s = state.step;
  const int64_t steps = std::max<int64_t>(1, state.start.steps);
  const double share = std::clamp(static_cast<double>(s.step) / static_cast<double>(steps), 0.0, 1.0);
  const double epochs = std::max(1.0, state.start.epochs);
  const int epoch = static_cast<int>(std::min(epochs, std::floor(s.epoch - 1e-9) + 1));
  std::string left;
  if (state.rate > 0 && s.step < steps) {
    left = "   " + format_seconds(steps_left(state, s.step) / state.rate) + " left";
  }
  std::string out = fmt::format("  epoch {}/{:.0f} {}   step {} of {}{}\n", std::max(1, epoch), epochs,
                                share_text(share, columns, unicode), format_count(s.step), format_count(steps), left);
  const double speed = state.speed > 0 ? state.speed : s.line.samples_per_second;
  // On a narrow terminal clip_lines removes the last fields.
  out += fmt::format("  loss {:.4g}", s.line.loss);
  for (const auto& [name, value] : s.line.metrics) {
    out += fmt::format("   {} {}", name, percent(value));
  }
  out += fmt::format("   lr {:.4g}   {} samples/s", s.lr, format_count(std::llround(speed)));
  if (s.predicted_step > 0 && speed > 0) {
    const double planned = static_cast<double>(s.batch) / s.predicted_step;
    out += fmt::format("   {:.0f} % of plan", 100 * speed / planned);
  }
  out += s.grad_norm > 0 ? fmt::format("   grad norm {:.3g}\n", s.grad_norm) : "\n";
  out += fmt::format("  data {:.1f} ms waiting   comm {:.1f} ms exposed   memory {}   {}{} {}\n",
                     s.line.data_wait * 1e3, s.exposed_comm * 1e3, memory_text(s, state.start.memory_usable),
                     state.start.devices > 1 ? fmt::format("idle {:.1f} ms   ", s.bubble * 1e3) : "",
                     state.start.devices, state.start.devices == 1 ? "device" : "devices");
  return out;
}

void BarProgress::on(const runtime::Event& event) {
  const std::lock_guard lock(mutex_);
  const auto show = Overloaded{
      [this](const runtime::WorkEvent& e) { begin_work(e); },
      [this](const runtime::StartEvent& e) { begin_run(e); },
      [this](const runtime::PlanEvent& e) {
        if (!e.file.empty()) {
          line(fmt::format("  Checked   {} matches its sources and this machine", e.file));
        }
      },
      [this](const runtime::StepEvent& e) { take_step(e.report); },
      [this](const runtime::EvalEvent& e) {
        line(line_of(e));
        for (const runtime::VerifiedPairs& one : e.verified) {
          line("  " + verified_line(one, port_.unicode));
        }
      },
      [this](const runtime::ProfileEvent& e) {
        erase();
        port_.write(printable(profile_text(e)));
        work_.move(port_.now());
      },
      [this](const runtime::EndEvent& e) { end_run(e); },
      [this](const auto& e) { line(line_of(e)); },
  };
  std::visit(show, event);
}

void BarProgress::begin_work(const runtime::WorkEvent& e) {
  const double time = port_.now();
  const bool other = !work_.same(e);
  const bool shown = other && work_drawn_;
  if (shown) {
    erase();
    const std::string finished = training_ || !work_.through(e) ? "" : work_.finished();
    if (!finished.empty()) {
      write_line(fmt::format("  {}   {}", finished, format_seconds(work_.elapsed(time))));
    }
  }
  work_.begin(e, time);
  const bool has_bar = !work_.of_steps() && work_.total() > 0 && work_.elapsed(time) > 0.5;
  if (shown || (has_bar && time - drawn_ > 0.1)) {
    draw(time);
  }
}

void BarProgress::begin_run(const runtime::StartEvent& e) {
  if (!e.synthetic.empty()) {
    line(fmt::format("  Data      synthetic: {}", fmt::join(e.synthetic, ", ")));
  }
  if (e.ranks > 1) {
    line(fmt::format("  Ranks     all {} ranks up: {}", e.ranks, e.hosts));
  }
  training_ = true;
  state_.start = e;
}

// Asks for the report of a step as often as the bar is drawn.
bool BarProgress::wants_step(bool due) { return due || port_.now() - stepped_ > 0.1; }

void BarProgress::take_step(const runtime::StepReport& step) {
  const double time = stepped_ = port_.now();
  state_.step = step;
  steps_.add(time, step.step);
  state_.rate = steps_.per_second();
  samples_.add(step.line.run_seconds, step.line.run_samples);
  state_.speed = samples_.per_second();
  work_.move(time);
  if (work_drawn_ || (time - began_ > 0.5 && time - drawn_ > 0.1)) {
    draw(time);
  }
}

void BarProgress::end_run(const runtime::EndEvent& e) {
  const double time = port_.now();
  work_.begin({}, time);
  draw(time);
  rows_ = 0;
  if (e.exit == exit_code(ErrorKind::kInterrupted)) {
    write_line("  Stopped   " + stop_text(e));
    return;
  }
  write_line(fmt::format("  {}  step {}{}   {}{}", e.exit == 0 ? "Finished" : "Failed  ", format_count(e.step),
                         loss_text(e.loss), format_seconds(e.seconds),
                         e.weights.empty() ? "" : "   weights " + e.weights.substr(0, 16)));
  if (!e.host_sent.empty()) {
    write_line("  Network   " + network_text(e));
  }
}

void BarProgress::beat() {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  const bool counts = work_.total() == 0 && !work_.idle() && !work_.of_steps() && work_.elapsed(time) > 0.5;
  if (counts || work_.paused(time)) {
    draw(time);
  }
}

void BarProgress::line(const std::string& text) {
  erase();
  write_line(text);
  work_.move(port_.now());
}

// Prints one line, even if names of files and sources in it contain line breaks.
void BarProgress::write_line(const std::string& text) { port_.write(printable_line(text) + "\n"); }

void BarProgress::erase() {
  if (rows_ > 0) {
    port_.write(fmt::format("\033[{}A\033[J", rows_));
    rows_ = 0;
  }
}

// The lines about the current work: a bar, unless the work is a step or has no parts, and the wait if the work pauses.
std::string BarProgress::work_lines(double time) const {
  if (work_.idle()) {
    return "";
  }
  std::string text;
  const bool has_parts = !work_.of_steps() && work_.total() > 0;
  const bool young = work_.elapsed(time) <= 0.5;
  if (has_parts && !young) {
    const double share = static_cast<double>(work_.done()) / static_cast<double>(work_.total());
    text = fmt::format("  {} {}   {}", work_.subject(), share_text(share, port_.columns, port_.unicode),
                       counted_of(work_.done(), work_.total(), "sample"));
    const double rate = work_.rate();
    if (rate > 0 && work_.done() < work_.total()) {
      text += fmt::format("   {} samples/s   {} left", format_count(std::llround(rate)),
                          format_seconds(static_cast<double>(work_.total() - work_.done()) / rate));
    }
    text += "\n";
  }
  if (work_.paused(time) || (!has_parts && !work_.of_steps() && !young)) {
    text += fmt::format("  waiting {:.0f} s for {}\n", work_.still(time), work_.awaited());
  }
  return text;
}

void BarProgress::draw(double time) {
  erase();
  const std::string work = work_lines(time);
  work_drawn_ = !work.empty();
  const std::string run = state_.step.step == 0 ? "" : bar_text(state_, port_.columns, port_.unicode);
  const std::string text = clip_lines(printable(run + work), port_.columns);
  port_.write(text);
  rows_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  drawn_ = time;
}

}  // namespace xrun::cli
