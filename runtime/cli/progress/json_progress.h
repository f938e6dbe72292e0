// Progress as JSON lines on stdout (docs/reference/command/progress.md, "Progress"): one compact object per event.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/cli/progress/progress.h"

namespace xrun::cli {

// Returns {metrics, samples, broken, synthetic}: metrics by key, the numbers of evaluated and broken samples by source,
// and the names of synthetic sources. If `ignore` leaves out labels, it also has `labelled`, by source and label.
nlohmann::ordered_json evaluation_json(const std::vector<runtime::Measured>& metrics,
                                       const std::vector<runtime::MeasuredSource>& sources);

class JsonProgress final : public runtime::EventSink {
 public:
  explicit JsonProgress(ProgressPort port) : port_(std::move(port)) {}

  void on_start(const runtime::StartEvent& event) override;
  void on_plan(const runtime::PlanEvent& event) override;
  void on_resume(int64_t step, const std::string& path) override;
  void on_note(const std::string& message) override;
  bool wants_step(bool due) override { return due; }
  void on_step(const runtime::StepReport& step, bool due) override;
  void on_eval(const runtime::EvalEvent& event) override;
  void on_graph(const runtime::GraphEvent& event) override;
  void on_checkpoint(const runtime::CheckpointEvent& event) override;
  void on_copy(const runtime::CopyEvent& event) override;
  void on_profile(const runtime::ProfileEvent& event) override;
  void on_warn(const runtime::WarnEvent& event) override;
  void on_stop(const runtime::StopEvent& event) override;
  void on_end(const runtime::EndEvent& event) override;

 private:
  ProgressPort port_;
};

}  // namespace xrun::cli
