// Progress as lines that grep can search (docs/reference/command/progress.md, "Progress"): one line every `log.every`,
// one per phase, and heartbeats when nothing else is printed.
#pragma once

#include <mutex>

#include "runtime/cli/progress/progress.h"
#include "runtime/cli/progress/work_watch.h"

namespace xrun::cli {

// Threads: any thread may call `beat` and `on`.
class PlainProgress : public runtime::EventSink {
 public:
  explicit PlainProgress(ProgressPort port) : port_(std::move(port)), told_(port_.now()) {}

  void on(const runtime::Event& event) override;
  bool wants_step(bool due) override;

  // Prints a heartbeat with the current work if nothing has been printed for 30 seconds, or if the work has made no
  // progress for 10. Prints at most one heartbeat in 30 seconds.
  void beat();

 private:
  void tell(std::string_view line, double time);
  void begin_work(const runtime::WorkEvent& event, double time);
  void begin_run(const runtime::StartEvent& event, double time);
  void finish_work(const runtime::WorkEvent& next, double time);
  void take_step(const runtime::StepEvent& event, double time);
  void end_run(const runtime::EndEvent& event, double time);

  std::mutex mutex_;
  const ProgressPort port_;
  WorkWatch work_;
  bool training_ = false;
  bool beaten_in_work_ = false;
  Bytes usable_ = 0;
  double loss_ = 0;  // loss of the last step that was reported
  double rate_ = 0;  // images per second; 0: no step was reported yet
  double told_;
  double stepped_ = -1e9;  // time at which a step was last reported
  double beaten_ = -1e9;
};

// "2026-01-05T10:22:31Z step=10880 epoch=8.605 loss=6.8421 ...".
//   usable   memory that may be used; 0: not known
//   seconds  the time since 1970
std::string plain_line(const runtime::StepReport& step, Bytes usable, double seconds);

}  // namespace xrun::cli
