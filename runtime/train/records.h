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

// Holds a record for the metric of `best` and a record for the metric of a plateau in `stop_when`; if these metrics are
// equal, there is one record for both. Checkpoints store the records, so that a resumed run knows its earlier
// evaluations.
class Records {
 public:
  // The clock outlives the object.
  Records(const RunSpec& run, const RunClock& clock);

  // Takes over the records of the same metrics from a checkpoint of `step` steps.
  void restore(const std::vector<Record>& saved, int64_t step);
  // Adds the evaluation after `step` steps; it replaces an earlier one of the same step.
  void add(int64_t step, const std::vector<Measured>& metrics);

  bool empty() const { return records_.empty(); }
  bool is_best(int64_t step) const;  // whether the step is among those that `best` keeps
  // The reason to end the run after this evaluation; nullopt if it continues.
  std::optional<std::string> stop_reason(int64_t step, const std::vector<Measured>& metrics) const;
  const std::vector<Record>& all() const { return records_; }

 private:
  std::optional<StopSpec> stop_;
  const RunClock& clock_;
  std::vector<Record> records_;
};

}  // namespace xrun::runtime
