// Checkpoints as the trainer sees them: they keep the state of a run, and a run goes on or begins from one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/train/events.h"

namespace xrun::runtime {

class TrainState;

struct SavedCheckpoint {
  std::string path;
  Bytes bytes = 0;
};

// Implemented by runtime/checkpoint. Called from the trainer's thread between two steps.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;
  // Durable when it returns (or queued, where the store is asynchronous). `step` steps are done, `samples` samples
  // seen.
  virtual Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) = 0;
  // Puts a saved state into `state`. Gives the number of steps done, and none when there is nothing to resume from.
  struct Resumed {
    int64_t step = 0;
    std::string path;
    // XG0703: what wrote it was another instruction set or library, so that bits need not go on as they would have.
    // XG0704: the training data had another number of samples.
    std::vector<WarnEvent> warnings;
  };
  virtual Result<std::optional<Resumed>> resume(TrainState& state) = 0;
  // `init = checkpoint(path)`: fills weights and running statistics of a new run with those that another run has left,
  // by name. A head that is not there, or there with other classes, keeps its first values: gives the names of such
  // heads.
  virtual Result<std::vector<std::string>> start_from(const std::string& path, TrainState& state) = 0;
  // Waits for what is queued.
  virtual Status finish() { return {}; }
};

}  // namespace xrun::runtime
