#include "runtime/cli/progress/run_log.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "runtime/formats/event_file.h"

namespace xrun::cli {
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
    shown_->on_warn({"XG0817", output.path + " cannot be opened: " + cause + "; the run continues without this log"});
  }
}

void LoggedProgress::write(Output& output, std::string_view text) {
  if (const std::string cause = output.file.append(text); !cause.empty()) {
    shown_->on_warn({"XG0817", output.path + " cannot be written: " + cause + "; the run continues without this log"});
  }
}

void LoggedProgress::write_scalars(int64_t step, const std::vector<std::pair<std::string, double>>& numbers) {
  if (!event_file_.path.empty()) {
    write(event_file_, runtime::scalar_event(unix_time(), step, numbers));
  }
}

void LoggedProgress::on_start(const runtime::StartEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_start(event);
  started_ = true;
  open(log_file_);
  write(log_file_, std::exchange(early_, ""));
  log_.on_start(event);
  if (!address_.empty()) {
    listen(event);
  }
  if (!event_file_.path.empty()) {
    open(event_file_);
    write(event_file_, runtime::first_event(unix_time()));
    write(event_file_, runtime::start_event(unix_time(), event.first_step + 1));
  }
}

void LoggedProgress::listen(const runtime::StartEvent& event) {
  auto prometheus = Prometheus::listen(address_);
  if (!prometheus.ok()) {
    const runtime::WarnEvent warning{prometheus.error().code,
                                     prometheus.error().message + "; the run continues without them"};
    shown_->on_warn(warning);
    log_.on_warn(warning);
    return;
  }
  prometheus_ = std::move(prometheus).value();
  prometheus_->start(event);
  for (const runtime::WarnEvent& warning : std::exchange(early_warnings_, {})) {
    prometheus_->warned(warning);
  }
}

void LoggedProgress::on_plan(const runtime::PlanEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_plan(event);
  log_.on_plan(event);
}

void LoggedProgress::on_resume(int64_t step, const std::string& path) {
  const std::lock_guard lock(mutex_);
  shown_->on_resume(step, path);
  log_.on_resume(step, path);
}

void LoggedProgress::on_note(const std::string& message) {
  const std::lock_guard lock(mutex_);
  shown_->on_note(message);
  log_.on_note(message);
}

bool LoggedProgress::wants_step(bool due) {
  shows_step_ = shown_->wants_step(due);
  return shows_step_ || log_.wants_step(due);
}

void LoggedProgress::on_step(const runtime::StepReport& step, bool due) {
  const std::lock_guard lock(mutex_);
  if (shows_step_) {
    shown_->on_step(step, due);
  }
  if (!due) {
    return;
  }
  log_.on_step(step, due);
  if (prometheus_ != nullptr) {
    prometheus_->step(step);
  }
  std::vector<std::pair<std::string, double>> numbers{
      {"train/loss", step.line.loss}, {"train/lr", step.lr}, {"train/samples_per_s", step.line.samples_per_second}};
  for (const auto& [name, value] : step.line.metrics) {
    numbers.emplace_back("train/" + name, value);
  }
  write_scalars(step.step, numbers);
}

void LoggedProgress::on_eval(const runtime::EvalEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_eval(event);
  log_.on_eval(event);
  if (prometheus_ != nullptr) {
    prometheus_->evaluated(event);
  }
  std::vector<std::pair<std::string, double>> numbers;
  for (const runtime::Measured& one : event.metrics) {
    numbers.emplace_back("eval/" + one.key, one.value);
  }
  write_scalars(event.step, numbers);
}

void LoggedProgress::on_graph(const runtime::GraphEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_graph(event);
  log_.on_graph(event);
}

void LoggedProgress::on_checkpoint(const runtime::CheckpointEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_checkpoint(event);
  log_.on_checkpoint(event);
  if (prometheus_ != nullptr) {
    prometheus_->saved(event);
  }
}

void LoggedProgress::on_copy(const runtime::CopyEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_copy(event);
  log_.on_copy(event);
}

void LoggedProgress::on_profile(const runtime::ProfileEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_profile(event);
  log_.on_profile(event);
}

void LoggedProgress::on_warn(const runtime::WarnEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_warn(event);
  log_.on_warn(event);
  if (prometheus_ != nullptr) {
    prometheus_->warned(event);
  } else if (!address_.empty() && !started_) {
    early_warnings_.push_back(event);
  }
}

void LoggedProgress::on_stop(const runtime::StopEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_stop(event);
  log_.on_stop(event);
}

void LoggedProgress::on_end(const runtime::EndEvent& event) {
  const std::lock_guard lock(mutex_);
  shown_->on_end(event);
  log_.on_end(event);
}

}  // namespace xrun::cli
