// Progress on a terminal (docs/reference/command/progress.md, "Progress"): a bar that is redrawn about ten times a
// second, from half a second after the start, below a scrolling log of the finished phases. The last state of the bar
// stays on the screen when the run ends.
#pragma once

#include <mutex>

#include "runtime/cli/progress/progress.h"
#include "runtime/cli/progress/work_watch.h"

namespace xrun::cli {

// The state of a training run that its bar shows.
struct BarState {
  runtime::StartEvent start;
  runtime::StepReport step;
  double rate = 0;   // steps per second over the last 30 s; 0: unknown
  double speed = 0;  // samples per second over the last 30 s, without evaluations and saves; 0: unknown
};

// Three lines about a run. The width of the bar depends on `columns`; longer lines are clipped when they are drawn.
std::string bar_text(const BarState& state, int columns, bool unicode);

// Threads: any thread may call `beat` and `on`.
class BarProgress : public runtime::EventSink {
 public:
  explicit BarProgress(ProgressPort port) : port_(std::move(port)), began_(port_.now()) {}

  void on(const runtime::Event& event) override;
  bool wants_step(bool due) override;

  // Redraws the parts that change with time alone: the seconds of a pause, and of work that reports no parts.
  void beat();

 private:
  void begin_work(const runtime::WorkEvent& event);
  void begin_run(const runtime::StartEvent& event);
  void take_step(const runtime::StepReport& step);
  void end_run(const runtime::EndEvent& event);
  void line(const std::string& text);
  void write_line(const std::string& text);
  void erase();
  void draw(double time);
  std::string work_lines(double time) const;

  std::mutex mutex_;
  const ProgressPort port_;
  WorkWatch work_;
  BarState state_;
  RecentRate steps_;
  RecentRate samples_;
  bool training_ = false;
  bool work_drawn_ = false;  // lines about the current work are on the screen
  double began_;
  double drawn_ = -1e9;
  double stepped_ = -1e9;  // time at which a step was last reported
  int rows_ = 0;           // number of drawn lines, which the next drawing erases
};

}  // namespace xrun::cli
