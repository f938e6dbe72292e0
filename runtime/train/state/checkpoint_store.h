// The trainer's interface to checkpoints: saving the state of a run, and resuming or starting a run from one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/train/events/run_events.h"
#include "runtime/train/state/class_tables.h"
#include "runtime/train/state/input_scales.h"

namespace xrun::runtime {

class ChangeGuard;  // runtime/device/backend.h
class TrainState;

// A step that was evaluated, and the value of the metric at that step.
struct BestStep {
  int64_t step = 0;
  double value = 0;
};

// The best steps of a run by one metric, the best first; if values are equal, the earlier step comes first.
struct Record {
  std::string metric;
  bool highest = true;  // whether a higher value is better
  int64_t keep = 0;     // number of checkpoints kept for the metric; with 0, `best` still has one step
  std::vector<BestStep> best;
};

// The tensors at and below a path that a run which starts from a checkpoint nevertheless initialises from the seed.
struct FreshPart {
  std::string path;
  bool head = false;
};

// A head, a layer of dense logits or a table of embeddings that takes some of its rows from a checkpoint. Rows are
// matched by the names of their classes, or by number if classes have no names.
struct MatchedPart {
  std::string path;
  bool head = false;
  bool by_name = false;
  int64_t matched = 0;
  int64_t classes = 0;  // number of classes of the run; unmatched ones are initialised from the seed
};

// The parts of a model that a new run does not copy unchanged from the checkpoint from which it starts.
struct StartedParts {
  std::vector<FreshPart> fresh;  // parts that are initialised from the seed
  std::vector<MatchedPart> matched;
};

struct SavedCheckpoint {
  std::string path;
  Bytes bytes = 0;
  Seconds waited = 0;  // total time that instructions of later steps waited for the save
};

// The outcome of making the second copy of a checkpoint (`checkpoint.copy`).
struct CheckpointCopy {
  int64_t step = 0;
  std::string path;  // path of the copy; the same on every host
  Bytes bytes = 0;   // size of the copy, over all hosts
  Seconds seconds = 0;
  std::string fault;  // reason why there is no copy; empty: the copy is durable
};

// Implemented by runtime/checkpoint. Called on the trainer's thread between two steps.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;
  // Saves the state after `step` steps and `samples` samples. It is durable when the call returns.
  virtual Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) = 0;
  // Like `save`, but returns at once and saves in the background. The caller may change the state meanwhile:
  // instructions call `guard` before they change it, and the caller calls read_rest() before any other change.
  // REQUIRES: no save is under way; no class rows are in files. A store that cannot save in the background saves before
  // the call returns.
  virtual Status begin_save(const TrainState& state, int64_t step, int64_t samples) {
    XRUN_ASSIGN(begun_, save(state, step, samples));
    return {};
  }
  // The guard that later steps must call before they change the state; null: no guard is needed.
  virtual ChangeGuard* guard() { return nullptr; }
  // Reads the parts of the state that the save under way has not read yet.
  virtual void read_rest() {}
  // Returns the checkpoint of begin_save once it is durable, and nullopt until then; with `wait`, waits until it is
  // durable. While a save is under way, all ranks call this together with the same `wait`. After an error no save is
  // under way.
  virtual Result<std::optional<SavedCheckpoint>> saved(bool /*wait*/) { return std::exchange(begun_, std::nullopt); }
  // Returns the second copies that were completed, failed or were given up since the last call; with `wait`, waits for
  // all copies. A copy is made while steps run, after its checkpoint is durable. All ranks call this together with the
  // same `wait`. A failed copy is part of the result; an error means that a rank has failed.
  virtual Result<std::vector<CheckpointCopy>> copies(bool /*wait*/) { return std::vector<CheckpointCopy>(); }
  // Loads the saved state into `state`; nullopt if there is no checkpoint to resume from.
  struct Resumed {
    int64_t step = 0;
    std::string path;
    // XG0703: the checkpoint was written with another instruction set or library, so later steps may differ in bits.
    // XG0704: the training data had another number of samples. XG0718: it has residuals of another number of senders.
    std::vector<WarnEvent> warnings;
    std::vector<Record> records;  // the best steps in all evaluations up to this step
  };
  virtual Result<std::optional<Resumed>> resume(TrainState& state) = 0;
  // Returns the classes in the checkpoint that `resume` would load; nullopt if there is no checkpoint. Collective.
  virtual Result<std::optional<ClassTables>> classes() { return std::optional<ClassTables>(); }
  // Sets the classes of the run, which later checkpoints store. REQUIRES: called before `resume` and `start_from`.
  virtual void keep_classes(ClassTables /*classes*/) {}
  // These two do so for the means and deviations by which the run standardizes its inputs; empty: there are none.
  virtual Result<InputScales> scales() { return InputScales(); }
  virtual void keep_scales(InputScales /*scales*/) {}

  // Implements `init = checkpoint(path, skip)`: copies weights and running statistics of another run into a new one, by
  // name, except those at and below the paths of `skip`. Rows of classes are matched by the names of the classes; rows
  // that the checkpoint lacks are initialised from the seed. If the checkpoint has no row of a head, or of the layer
  // that computes dense logits, that part keeps its initial values and is returned as fresh.
  virtual Result<StartedParts> start_from(const std::string& path, const std::vector<std::string>& skip,
                                          TrainState& state) = 0;
  // Creates files of zeros for the class rows that the plan keeps in files, and maps them. Called only if the run does
  // not resume. A store without files leaves such rows in memory. Errors: kWorld, kContent.
  virtual Status make_rows(TrainState& /*state*/) { return {}; }
  // Called after an evaluation. Later saves store the records, and checkpoints of the best steps are not removed.
  virtual Status remember(const std::vector<Record>& /*records*/) { return {}; }
  // Ends the use of the store: after this call it changes no file. REQUIRES: no save is under way.
  virtual Status finish() { return {}; }

 private:
  std::optional<SavedCheckpoint> begun_;
};

}  // namespace xrun::runtime
