#include "runtime/cli/progress/run_log.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include "graph/base/overloaded.h"
#include "graph/os/durable.h"
#include "planner/report/page/measured_times.h"
#include "runtime/formats/event_file.h"

namespace xrun::cli {
namespace {

using Numbers = std::vector<std::pair<std::string, double>>;

Numbers numbers_of(const runtime::StepReport& step) {
  Numbers numbers{
      {"train/loss", step.line.loss}, {"train/lr", step.lr}, {"train/samples_per_s", step.line.samples_per_second}};
  for (const auto& [name, value] : step.line.metrics) {
    numbers.emplace_back("train/" + name, value);
  }
  if (step.loss_scale > 0) {
    numbers.emplace_back("train/loss_scale", step.loss_scale);
    numbers.emplace_back("train/skipped_steps", static_cast<double>(step.skipped_steps));
  }
  return numbers;
}

Numbers numbers_of(const runtime::EvalEvent& event) {
  Numbers numbers;
  for (const runtime::Measured& one : event.metrics) {
    numbers.emplace_back("eval/" + one.key, one.value);
  }
  return numbers;
}

}  // namespace

LogFile::~LogFile() {
  if (file_ >= 0) {
    ::close(file_);
  }
}

std::string LogFile::open(const std::string& path) {
  // O_NONBLOCK: the call must not wait if the path is a special file, which the check below rejects.
  file_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  struct stat status {};
  if (file_ < 0 || ::fstat(file_, &status) != 0) {
    return std::strerror(errno);
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(std::exchange(file_, -1));
    return "it is not a regular file";
  }
  char last = '\n';
  if (status.st_size > 0 && ::pread(file_, &last, 1, status.st_size - 1) == 1 && last != '\n') {
    return append("\n");
  }
  return "";
}

std::string LogFile::append(std::string_view text) {
  if (file_ < 0) {
    return "";
  }
  const ssize_t written = ::write(file_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) {
    return "";
  }
  const std::string cause = written < 0 ? std::strerror(errno) : "the disk is full";
  ::close(std::exchange(file_, -1));
  return cause;
}

LoggedProgress::LoggedProgress(std::unique_ptr<runtime::EventSink> shown, const LogOptions& options)
    : shown_(std::move(shown)),
      log_({.write =
                [this](std::string_view text) {
                  if (started_) {
                    write(log_file_, text);
                  } else {
                    early_ += text;
                  }
                },
            .now = unix_time}),
      address_(options.prometheus) {
  const std::filesystem::path directory(options.directory);
  log_file_.path = (directory / "log.jsonl").string();
  if (options.tensorboard) {
    // TensorBoard reads all files of a directory with such names, in the order of the times in the names.
    const auto seconds = static_cast<int64_t>(unix_time());
    event_file_.path = (directory / fmt::format("events.out.tfevents.{}.{}", seconds, ::getpid())).string();
  }
}

void LoggedProgress::open(Output& output) {
  if (const std::string cause = output.file.open(output.path); !cause.empty()) {
    shown_->on(runtime::WarnEvent{
        "XG0817", output.path + " cannot be opened: " + cause + "; the run continues without this log"});
  }
}

void LoggedProgress::write(Output& output, std::string_view text) {
  if (const std::string cause = output.file.append(text); !cause.empty()) {
    shown_->on(runtime::WarnEvent{
        "XG0817", output.path + " cannot be written: " + cause + "; the run continues without this log"});
  }
}

bool LoggedProgress::wants_step(bool due) {
  shows_step_ = shown_->wants_step(due);
  return shows_step_ || log_.wants_step(due);
}

void LoggedProgress::on(const runtime::Event& event) {
  if (std::holds_alternative<runtime::WorkEvent>(event) || std::holds_alternative<runtime::InterruptEvent>(event)) {
    shown_->on(event);  // this event is not logged, so it need not wait while another thread logs an event
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto* const step = std::get_if<runtime::StepEvent>(&event);
  if (step == nullptr || shows_step_) {
    shown_->on(event);
  }
  if (step != nullptr && !step->due) {
    return;
  }
  if (const auto* const plan = std::get_if<runtime::PlanEvent>(&event)) {
    plan_ = plan->plan;
  }
  if (const auto* const profile = std::get_if<runtime::ProfileEvent>(&event)) {
    write_profile(*profile);
  }
  const bool starts = std::holds_alternative<runtime::StartEvent>(event);
  if (starts) {
    open_log();
  }
  log_.on(event);
  if (starts && !address_.empty()) {
    listen();
  }
  if (prometheus_ != nullptr) {
    prometheus_->on(event);
  } else if (const auto* const warning = std::get_if<runtime::WarnEvent>(&event);
             warning != nullptr && !address_.empty() && !started_) {
    early_warnings_.push_back(*warning);
  }
  if (!event_file_.path.empty()) {
    write_event_file(event);
  }
}

// Opens the log and writes the events that came before the StartEvent.
void LoggedProgress::open_log() {
  started_ = true;
  open(log_file_);
  write(log_file_, std::exchange(early_, ""));
}

void LoggedProgress::listen() {
  auto prometheus = Prometheus::listen(address_);
  if (!prometheus.ok()) {
    const runtime::WarnEvent warning{prometheus.error().code,
                                     prometheus.error().message + "; the run continues without them"};
    shown_->on(warning);
    log_.on(warning);
    return;
  }
  prometheus_ = std::move(prometheus).value();
  for (const runtime::WarnEvent& warning : std::exchange(early_warnings_, {})) {
    prometheus_->on(warning);
  }
}

// Writes the times of all instructions next to the log (docs/reference/formats.md, "Measured times").
void LoggedProgress::write_profile(const runtime::ProfileEvent& profile) {
  if (profile.instructions.empty()) {
    return;
  }
  planner::MeasuredTimes measured{
      .plan = plan_, .steps = profile.steps, .step = profile.median_step, .instructions = {}};
  for (const runtime::MedianTime& time : profile.instructions) {
    measured.instructions.push_back({time.begin, time.end});
  }
  const std::string text = planner::measured_json(measured);
  const std::string path = (std::filesystem::path(log_file_.path).parent_path() / "profile.json").string();
  const auto bytes = std::as_bytes(std::span(text));
  const Status written = replace_file(
      path, Pieces(&bytes, 1), {.name = "file of measured times", .code = "XG0638", .offset = 0, .magic = "{\"v\":"});
  if (written.ok()) {
    shown_->on(runtime::NoteEvent{path + " has the times of all instructions: xrun show PLAN --measured " + path});
  } else {
    shown_->on(runtime::WarnEvent{"XG0817", written.error().message + "; the run continues without this file"});
  }
}

void LoggedProgress::write_event_file(const runtime::Event& event) {
  const auto write_each = Overloaded{
      [this](const runtime::StartEvent& e) {
        open(event_file_);
        write(event_file_, runtime::first_event(unix_time()));
        write(event_file_, runtime::start_event(unix_time(), e.first_step + 1));
      },
      [this](const runtime::StepEvent& e) {
        write(event_file_, runtime::scalar_event(unix_time(), e.report.step, numbers_of(e.report)));
      },
      [this](const runtime::EvalEvent& e) {
        write(event_file_, runtime::scalar_event(unix_time(), e.step, numbers_of(e)));
      },
      [](const auto&) {},
  };
  std::visit(write_each, event);
}

}  // namespace xrun::cli
