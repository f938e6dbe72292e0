// Keeps the best steps of a run according to its evaluations, and decides whether `stop_when` ends the run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/settings/run_spec.h"
#include "runtime/train/clock/run_clock.h"
#include "runtime/train/events/run_events.h"
#include "runtime/train/state/checkpoint_store.h"

namespace xrun::runtime {

// Has one record for the metric of `best` and one for the metric of a plateau in `stop_when`; if these metrics are
// equal, both use one record. Checkpoints contain the records, so that a resumed run has the results of its earlier
// evaluations.
class Records {
 public:
  // The clock outlives the object.
  Records(const RunSpec& run, const RunClock& clock);

  // Adopts the records of the same metrics from a checkpoint of `step` steps.
  void restore(const std::vector<Record>& saved, int64_t step);
  // Adds the results of the evaluation after `step` steps; they replace those of an earlier evaluation at that step.
  void add(int64_t step, const std::vector<Measured>& metrics);

  bool empty() const { return records_.empty(); }
  bool is_best(int64_t step) const;  // whether the step is one of the best steps that are kept
  // Returns the reason to end the run after this evaluation; nullopt if the run continues.
  std::optional<std::string> stop_reason(int64_t step, const std::vector<Measured>& metrics) const;
  const std::vector<Record>& all() const { return records_; }

 private:
  std::optional<StopSpec> stop_;
  const RunClock& clock_;
  std::vector<Record> records_;
};

}  // namespace xrun::runtime
