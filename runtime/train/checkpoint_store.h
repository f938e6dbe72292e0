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

// An evaluated step and the value that it gave.
struct BestStep {
  int64_t step = 0;
  double value = 0;
};

// The best steps of a run by one metric, best first; of equal ones the first.
struct Record {
  std::string metric;
  bool highest = true;  // a higher value is better
  int64_t keep = 0;     // how many steps are kept for it; 0: none, and `best` has one all the same
  std::vector<BestStep> best;
};

// A part of the model that starts from the seed though the run begins from a checkpoint: tensors at and below a path.
struct FreshPart {
  std::string path;
  bool head = false;
};

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
    std::vector<Record> records;  // of the evaluations before that step
  };
  virtual Result<std::optional<Resumed>> resume(TrainState& state) = 0;
  // `init = checkpoint(path, skip)`: fills weights and running statistics of a new run with those that another run has
  // left, by name, but for those at and below the paths of `skip`. A head that is not there, or there with other
  // classes, keeps its first values, and so does the layer that makes dense logits: gives these parts.
  virtual Result<std::vector<FreshPart>> start_from(const std::string& path, const std::vector<std::string>& skip,
                                                    TrainState& state) = 0;
  // Makes the files of a run that does not go on from a checkpoint, for class rows that are to lie in some, and maps
  // them: they have zeros. A store without files leaves such rows in memory. Errors: kWorld, kContent.
  virtual Status make_rows(TrainState& /*state*/) { return {}; }
  // After an evaluation: later saves keep the records, and the steps that they name are not removed.
  virtual Status remember(const std::vector<Record>& /*records*/) { return {}; }
  // Waits for what is queued. Nothing that it keeps changes any more.
  virtual Status finish() { return {}; }
};

}  // namespace xrun::runtime
