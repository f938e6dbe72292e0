// Progress as JSON lines on stdout (docs/reference/command/progress.md, "Progress"): one compact object per event.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/cli/progress/progress.h"

namespace xrun::cli {

// Returns {metrics, samples, broken, synthetic}: metrics by key, the numbers of evaluated and broken samples by source,
// and the names of synthetic sources. If `ignore` leaves out labels, it also has `labelled`, by source and label; after
// a verification also `verification`, by key.
nlohmann::ordered_json evaluation_json(const std::vector<runtime::Measured>& metrics,
                                       const std::vector<runtime::MeasuredSource>& sources,
                                       const std::vector<runtime::VerifiedPairs>& verified);

class JsonProgress final : public runtime::EventSink {
 public:
  explicit JsonProgress(ProgressPort port) : port_(std::move(port)) {}

  void on(const runtime::Event& event) override;
  bool wants_step(bool due) override { return due; }

 private:
  ProgressPort port_;
};

}  // namespace xrun::cli
