// What the evaluations of a run have given so far: its best steps, and whether it is to end by `stop_when`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/run_spec.h"
#include "runtime/train/checkpoint_store.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

// A record for the metric of `best` and one for that of `stop_when`, or one for both. Checkpoints keep them, so that a
// run that goes on knows what came before.
class Records {
 public:
  // `samples` of an epoch, `batch` of a step.
  Records(const RunSpec& run, int64_t samples, int64_t batch);

  // Takes over what a checkpoint of `step` steps says about the same metrics.
  void restore(const std::vector<Record>& saved, int64_t step);
  // An evaluation after `step` steps; one of the same step takes its place.
  void add(int64_t step, const std::vector<Measured>& metrics);

  bool empty() const { return records_.empty(); }
  bool is_best(int64_t step) const;  // among those that `best` keeps
  // Why the run ends after this evaluation; none where it goes on.
  std::optional<std::string> stop_reason(int64_t step, const std::vector<Measured>& metrics) const;
  const std::vector<Record>& all() const { return records_; }

 private:
  std::optional<StopSpec> stop_;
  int64_t samples_;
  int64_t batch_;
  std::vector<Record> records_;
};

}  // namespace xrun::runtime
