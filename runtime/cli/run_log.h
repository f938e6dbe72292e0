// The log of a run: its events as JSON lines beside its checkpoints (docs/command.md, "Logs"), whatever is shown, and
// its figures as event files for TensorBoard.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cli/json_progress.h"

namespace xrun::cli {

// Whether and where a run is logged.
struct LogOptions {
  std::string directory;     // of the checkpoints
  bool tensorboard = false;  // event files beside the log
};

// A file that events are appended to, each with one write. One that cannot be written is given up: the run goes on.
class LogFile {
 public:
  LogFile() = default;
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Only an ordinary file is opened; a torn last line of a run that was killed is ended. Empty, or what went wrong.
  std::string open(const std::string& path);
  // The same. Nothing is written where no file is open; one that fails is closed.
  std::string append(std::string_view text);

 private:
  int file_ = -1;
};

// Shows events by another sink and logs them. What comes before `on_start` is kept until then, because the directory
// of the checkpoints may not be there yet. Threads: `on_interrupt` from any.
class LoggedProgress final : public runtime::EventSink {
 public:
  LoggedProgress(std::unique_ptr<runtime::EventSink> shown, const LogOptions& options);

  void on_work(const runtime::WorkEvent& event) override { shown_->on_work(event); }
  void on_start(const runtime::StartEvent& event) override;
  void on_plan(const runtime::PlanEvent& event) override;
  void on_resume(int64_t step, const std::string& path) override;
  bool wants_step(bool due) override;
  void on_step(const runtime::StepReport& step, bool due) override;
  void on_eval(const runtime::EvalEvent& event) override;
  void on_graph(const runtime::GraphEvent& event) override;
  void on_checkpoint(const runtime::CheckpointEvent& event) override;
  void on_profile(const runtime::ProfileEvent& event) override;
  void on_warn(const runtime::WarnEvent& event) override;
  void on_stop(const runtime::StopEvent& event) override;
  void on_end(const runtime::EndEvent& event) override;
  void on_interrupt() override { shown_->on_interrupt(); }

 private:
  // A file of the run and its name.
  struct Output {
    std::string path;
    LogFile file;
  };
  void open(Output& output);
  void write(Output& output, std::string_view text);
  void write_scalars(int64_t step, const std::vector<std::pair<std::string, double>>& numbers);

  std::unique_ptr<runtime::EventSink> shown_;
  Output log_file_;
  Output event_file_;  // without a path: there is none
  JsonProgress log_;
  bool started_ = false;
  bool shows_step_ = false;
  std::string early_;  // events before the start
};

}  // namespace xrun::cli
