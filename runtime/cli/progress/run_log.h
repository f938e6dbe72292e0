// The log of a run: its events as JSON lines next to its checkpoints (docs/reference/command/progress.md, "Logs"), in
// addition to the shown progress. Also gives its figures to TensorBoard, as event files, and to Prometheus, over HTTP,
// and writes the times of instructions that `--profile` has measured.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/cli/progress/json_progress.h"
#include "runtime/cli/progress/prometheus.h"

namespace xrun::cli {

// The place of the log, and the other programs that get the figures.
struct LogOptions {
  std::string directory;     // the checkpoint directory
  bool tensorboard = false;  // write event files next to the log
  std::string prometheus;    // the address at which figures are served; empty: they are not served
};

// A file to which each event is appended in one write. After a failed write it is closed, and the run continues.
class LogFile {
 public:
  LogFile() = default;
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Opens or makes a regular file. If a killed run left an incomplete last line, ends that line. Returns the error
  // text, empty on success.
  std::string open(const std::string& path);
  // Appends the text. After a failed write, closes the file and returns the error text. Does nothing if no file is
  // open.
  std::string append(std::string_view text);

 private:
  int file_ = -1;
};

// Passes events to another sink and logs them. Events before the StartEvent are kept until then, because the checkpoint
// directory may not exist yet. Threads: any thread may call `on` with an InterruptEvent or a WarnEvent.
class LoggedProgress : public runtime::EventSink {
 public:
  LoggedProgress(std::unique_ptr<runtime::EventSink> shown, const LogOptions& options);

  void on(const runtime::Event& event) override;
  bool wants_step(bool due) override;

 private:
  // A file of the run and its name.
  struct Output {
    std::string path;
    LogFile file;
  };
  void open(Output& output);
  void write(Output& output, std::string_view text);
  void open_log();
  void listen();
  void write_event_file(const runtime::Event& event);
  void write_profile(const runtime::ProfileEvent& profile);

  std::mutex mutex_;  // held while an event is shown and logged
  std::unique_ptr<runtime::EventSink> shown_;
  Output log_file_;
  Output event_file_;  // event file of TensorBoard; its path is empty if there is no such file
  JsonProgress log_;
  std::string plan_;                        // id of the plan
  std::string address_;                     // LogOptions::prometheus
  std::unique_ptr<Prometheus> prometheus_;  // null: figures are not served
  bool started_ = false;
  bool shows_step_ = false;
  std::string early_;  // lines of the events before the StartEvent
  std::vector<runtime::WarnEvent> early_warnings_;
};

}  // namespace xrun::cli
