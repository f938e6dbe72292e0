// The broken samples in the batches of a loader. Threads: any thread may call.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/train/session/batch_source.h"

namespace xrun::runtime {

class StepFaults {
 public:
  // Records a broken sample that this process has found; each one is recorded once.
  void note(int64_t step, BrokenRow found);
  // Records broken samples that other ranks have found.
  void add(int64_t step, std::span<const BrokenRow> others);
  // Returns the fault of the sample that a row gets at this attempt; nullopt if it is not known to be broken.
  std::optional<std::string> known(int64_t step, int64_t row, int attempt) const;
  // Returns the samples of `note` that were not returned before.
  std::vector<BrokenRow> take_untold(int64_t step);
  // Returns the rows with broken samples, and the rows that have these as partners (partner_row), if broken samples
  // were recorded since the last call. `rows`: rows of the batch.
  std::set<int64_t> rows_to_mix(int64_t step, int64_t rows);
  void forget(int64_t step);
  void forget_all();

 private:
  struct Step {
    std::map<std::pair<int64_t, int>, std::string> messages;  // key: row and attempt
    std::vector<BrokenRow> untold;                            // not yet sent to the other ranks
    size_t mixed = 0;                                         // number of messages at the last call of rows_to_mix
  };

  mutable std::mutex mutex_;
  std::map<int64_t, Step> steps_;  // guarded by mutex_
};

}  // namespace xrun::runtime
