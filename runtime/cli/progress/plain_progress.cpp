// Tests: tests/runtime/cli/progress/progress_test.cpp
#include "runtime/cli/progress/plain_progress.h"

#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <variant>

#include "graph/base/overloaded.h"
#include "graph/base/utf8.h"
#include "runtime/cli/progress/verified_text.h"

namespace xrun::cli {
namespace {

std::string stamp(double seconds) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

// The field that names synthetic sources; empty if no source is synthetic.
std::string synthetic_field(const std::vector<std::string>& sources) {
  return sources.empty() ? "" : fmt::format(" synthetic={}", fmt::join(sources, ","));
}

// The field with the length of pauses; empty if they are shorter than the smallest printed time.
std::string pause_field(std::string_view name, Seconds seconds) {
  return seconds < 0.005 ? "" : fmt::format(" {}={:.2f}", name, seconds);
}

double gib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

// The lines that events print, without the time at the start of a line.

std::string line_of(const runtime::ResumeEvent& e) { return fmt::format("resumed step={} from={}", e.step, e.path); }

std::string line_of(const runtime::NoteEvent& e) { return fmt::format("note {}", e.message); }

std::string line_of(const runtime::EvalEvent& e) {
  std::string line = fmt::format("eval step={}", e.step);
  for (const runtime::Measured& one : e.metrics) {
    line += fmt::format(" {}={:.4f}", one.key, one.value);
  }
  for (const runtime::VerifiedPairs& one : e.verified) {
    line += verified_fields(one);
  }
  std::vector<std::string> synthetic;
  for (const runtime::MeasuredSource& one : e.sources) {
    line += one.broken > 0 ? fmt::format(" {}.broken={}", one.name, one.broken) : "";
    for (const runtime::LabelCount& label : one.labels) {
      line += fmt::format(" {}.{}.labels={} of={}", one.name, label.input, label.labels, label.all);
    }
    if (one.synthetic) {
      synthetic.push_back(one.name);
    }
  }
  line += synthetic_field(synthetic);
  return line + fmt::format(" seconds={:.1f}", e.seconds);
}

std::string line_of(const runtime::GraphEvent& e) {
  return fmt::format("graph step={} head={} of_step={} recall={:.4f} seconds={:.2f} waited={:.2f}", e.step, e.head,
                     e.of_step, e.recall, e.seconds, e.waited);
}

std::string line_of(const runtime::CheckpointEvent& e) {
  const std::string waited = e.waited < e.seconds ? fmt::format(" waited={:.3f}", e.waited) : "";
  const std::string next = e.interval > 0 ? fmt::format(" next_s={:.1f}", e.interval) : "";
  return fmt::format("checkpoint step={} path={} mib={:.1f} seconds={:.2f}{}{}", e.step, e.path,
                     static_cast<double>(e.bytes) / static_cast<double>(kMiB), e.seconds, waited, next);
}

std::string line_of(const runtime::CopyEvent& e) {
  return fmt::format("copy step={} path={} mib={:.1f} seconds={:.2f}", e.step, e.path,
                     static_cast<double>(e.bytes) / static_cast<double>(kMiB), e.seconds);
}

std::string line_of(const runtime::StopEvent& e) { return fmt::format("stop step={} reason=\"{}\"", e.step, e.reason); }

std::string line_of(const runtime::InterruptEvent&) { return fmt::format("stopping {}", kStopping); }

}  // namespace

std::string plain_line(const runtime::StepReport& s, Bytes usable, double seconds) {
  std::string line = fmt::format("{} step={} epoch={:.3f} loss={:.5g}", stamp(seconds), s.step, s.epoch, s.line.loss);
  line += s.batch_grows ? fmt::format(" batch={}", s.batch) : "";
  for (const auto& [name, value] : s.line.metrics) {
    line += fmt::format(" {}={:.4f}", name, value);
  }
  for (const runtime::ActiveReport& active : s.active) {
    line += fmt::format(" {}.active={}", active.head, active.classes);
    line += std::isnan(active.mass) ? "" : fmt::format(" {}.mass={:.4f}", active.head, active.mass);
  }
  line += fmt::format(
      " lr={:.4g} samples_per_s={:.0f}{}{} data_ms={:.1f} comm_ms={:.1f} bubble_ms={:.1f} mem_gib={:.2f}", s.lr,
      s.line.samples_per_second, pause_field("eval_s", s.line.evaluation), pause_field("save_s", s.line.saves),
      s.line.data_wait * 1e3, s.exposed_comm * 1e3, s.bubble * 1e3, gib(s.resident > 0 ? s.resident : s.memory));
  if (usable > 0) {
    line += fmt::format(" mem_of_gib={:.2f}", gib(usable));
  }
  line += s.grad_norm > 0 ? fmt::format(" grad_norm={:.4g}", s.grad_norm) : "";
  return s.loss_scale > 0 ? line + fmt::format(" loss_scale={:.0f} skipped={}", s.loss_scale, s.skipped_steps) : line;
}

// Prints one line, even if names of files and sources in it contain line breaks.
void PlainProgress::tell(std::string_view line, double time) {
  port_.write(printable_line(line) + "\n");
  told_ = time;
  work_.move(time);
}

// Prints that the current work has finished, if a heartbeat has named it. Work of training is left out, since its
// events have lines of their own.
void PlainProgress::finish_work(const runtime::WorkEvent& next, double time) {
  if (beaten_in_work_ && !training_ && !work_.of_steps() && work_.through(next)) {
    tell(fmt::format("{} finished {} seconds={:.1f}", stamp(time), work_.fields(), work_.elapsed(time)), time);
  }
  beaten_in_work_ = false;
}

void PlainProgress::begin_work(const runtime::WorkEvent& e, double time) {
  if (!work_.same(e)) {
    finish_work(e, time);
  }
  work_.begin(e, time);
}

void PlainProgress::begin_run(const runtime::StartEvent& e, double time) {
  training_ = true;
  usable_ = e.memory_usable;
  tell(fmt::format("{} start model={} plan={} devices={} steps={} batch={}{} samples={}{} mem_gib={:.2f} "
                   "mem_plan_gib={:.2f} mem_of_gib={:.2f}",
                   stamp(time), e.model, e.plan, e.devices, e.steps, e.batch,
                   e.last_batch > 0 ? fmt::format("..{}", e.last_batch) : "", e.samples, synthetic_field(e.synthetic),
                   gib(e.memory), gib(e.memory_planned), gib(e.memory_usable)),
       time);
  if (e.ranks > 1) {
    tell(fmt::format("{} ranks all {} ranks up: {}", stamp(time), e.ranks, e.hosts), time);
  }
}

void PlainProgress::end_run(const runtime::EndEvent& e, double time) {
  work_.begin({}, time);
  tell(fmt::format("{} end step={}{} weights={} seconds={:.1f} exit={}{}", stamp(time), e.step,
                   std::isnan(e.loss) ? "" : fmt::format(" loss={:.5g}", e.loss), e.weights, e.seconds, e.exit,
                   e.bad_samples > 0 ? fmt::format(" bad_samples={}", e.bad_samples) : ""),
       time);
  if (!e.host_sent.empty()) {
    tell(fmt::format("{} network {}", stamp(time), network_text(e)), time);
  }
  if (e.exit == exit_code(ErrorKind::kInterrupted)) {
    tell(fmt::format("{} stopped {}", stamp(time), stop_text(e)), time);
  }
}

// Asks for the report of a step at most once a second between two lines; heartbeats show its loss and rate.
bool PlainProgress::wants_step(bool due) { return due || port_.now() - stepped_ >= 1; }

void PlainProgress::take_step(const runtime::StepEvent& e, double time) {
  stepped_ = time;
  loss_ = e.report.line.loss;
  rate_ = e.report.line.samples_per_second;
  work_.move(time);
  if (e.due) {
    tell(plain_line(e.report, usable_, time), time);
  }
}

void PlainProgress::on(const runtime::Event& event) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  const auto show = Overloaded{
      [&](const runtime::WorkEvent& e) { begin_work(e, time); },
      [&](const runtime::StartEvent& e) { begin_run(e, time); },
      [&](const runtime::PlanEvent& e) {
        if (!e.file.empty()) {
          tell(fmt::format("{} checked plan={} file={}", stamp(time), e.plan, e.file), time);
        }
      },
      [&](const runtime::StepEvent& e) { take_step(e, time); },
      [&](const runtime::ProfileEvent& e) {
        told_ = time;
        work_.move(time);
        port_.write(printable(profile_text(e)));
      },
      [&](const runtime::WarnEvent& e) { tell(fmt::format("warning[{}]: {}", e.code, e.message), time); },
      [&](const runtime::EndEvent& e) { end_run(e, time); },
      [&](const auto& e) { tell(stamp(time) + " " + line_of(e), time); },
  };
  std::visit(show, event);
}

void PlainProgress::beat() {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  const bool paused = work_.paused(time);
  if (work_.idle() || time - beaten_ < 30 || (time - told_ < 30 && !paused)) {
    return;
  }
  beaten_ = told_ = time;
  beaten_in_work_ = true;
  std::string line =
      paused ? fmt::format("{} waiting for={} seconds={:.1f}", stamp(time), work_.fields(), work_.still(time))
             : fmt::format("{} working on={} seconds={:.1f}", stamp(time), work_.fields(), work_.elapsed(time));
  if (rate_ > 0 && work_.of_steps()) {
    line += fmt::format(" loss={:.5g} samples_per_s={:.0f}", loss_, rate_);
  }
  port_.write(printable_line(line) + "\n");
}

}  // namespace xrun::cli
