// Tests: tests/runtime/cli/progress/progress_test.cpp
#include "runtime/cli/progress/plain_progress.h"

#include <cmath>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include "graph/base/utf8.h"

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
  return s.grad_norm > 0 ? line + fmt::format(" grad_norm={:.4g}", s.grad_norm) : line;
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

void PlainProgress::on_work(const runtime::WorkEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  if (!work_.same(e)) {
    finish_work(e, time);
  }
  work_.begin(e, time);
}

void PlainProgress::on_plan(const runtime::PlanEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  if (!e.file.empty()) {
    tell(fmt::format("{} checked plan={} file={}", stamp(time), e.plan, e.file), time);
  }
}

void PlainProgress::on_start(const runtime::StartEvent& e) {
  const std::lock_guard lock(mutex_);
  training_ = true;
  usable_ = e.memory_usable;
  const double time = port_.now();
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

void PlainProgress::on_resume(int64_t step, const std::string& path) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  tell(fmt::format("{} resumed step={} from={}", stamp(time), step, path), time);
}

void PlainProgress::on_note(const std::string& message) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  tell(fmt::format("{} note {}", stamp(time), message), time);
}

// Takes a step at most once a second between two lines, since heartbeats show the step's loss and rate.
bool PlainProgress::wants_step(bool due) { return due || port_.now() - stepped_ >= 1; }

void PlainProgress::on_step(const runtime::StepReport& step, bool due) {
  const std::lock_guard lock(mutex_);
  const double time = stepped_ = port_.now();
  loss_ = step.line.loss;
  rate_ = step.line.samples_per_second;
  work_.move(time);
  if (due) {
    tell(plain_line(step, usable_, time), time);
  }
}

void PlainProgress::on_eval(const runtime::EvalEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  std::string line = fmt::format("{} eval step={}", stamp(time), e.step);
  for (const runtime::Measured& one : e.metrics) {
    line += fmt::format(" {}={:.4f}", one.key, one.value);
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
  tell(line + fmt::format(" seconds={:.1f}", e.seconds), time);
}

void PlainProgress::on_graph(const runtime::GraphEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  tell(fmt::format("{} graph step={} head={} of_step={} recall={:.4f} seconds={:.2f} waited={:.2f}", stamp(time),
                   e.step, e.head, e.of_step, e.recall, e.seconds, e.waited),
       time);
}

void PlainProgress::on_checkpoint(const runtime::CheckpointEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  const std::string waited = e.waited < e.seconds ? fmt::format(" waited={:.3f}", e.waited) : "";
  const std::string next = e.interval > 0 ? fmt::format(" next_s={:.1f}", e.interval) : "";
  tell(fmt::format("{} checkpoint step={} path={} mib={:.1f} seconds={:.2f}{}{}", stamp(time), e.step, e.path,
                   static_cast<double>(e.bytes) / static_cast<double>(kMiB), e.seconds, waited, next),
       time);
}

void PlainProgress::on_copy(const runtime::CopyEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  tell(fmt::format("{} copy step={} path={} mib={:.1f} seconds={:.2f}", stamp(time), e.step, e.path,
                   static_cast<double>(e.bytes) / static_cast<double>(kMiB), e.seconds),
       time);
}

void PlainProgress::on_profile(const runtime::ProfileEvent& e) {
  const std::lock_guard lock(mutex_);
  told_ = port_.now();
  work_.move(told_);
  port_.write(printable(profile_text(e)));
}

void PlainProgress::on_warn(const runtime::WarnEvent& e) {
  const std::lock_guard lock(mutex_);
  tell(fmt::format("warning[{}]: {}", e.code, e.message), port_.now());
}

void PlainProgress::on_stop(const runtime::StopEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  tell(fmt::format("{} stop step={} reason=\"{}\"", stamp(time), e.step, e.reason), time);
}

void PlainProgress::on_end(const runtime::EndEvent& e) {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
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

void PlainProgress::on_interrupt() {
  const std::lock_guard lock(mutex_);
  const double time = port_.now();
  tell(fmt::format("{} stopping {}", stamp(time), kStopping), time);
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
