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

namespace xrun::runtime {

class ChangeGuard;  // runtime/device/backend.h
class TrainState;

// An evaluated step and its value of the metric.
struct BestStep {
  int64_t step = 0;
  double value = 0;
};

// The best steps of a run by one metric, best first; if values are equal, the earlier step comes first.
struct Record {
  std::string metric;
  bool highest = true;  // a higher value is better
  int64_t keep = 0;     // checkpoints kept for the metric; with 0, `best` still holds one step
  std::vector<BestStep> best;
};

// The tensors at and below a path that are initialised from the seed although the run starts from a checkpoint.
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
  int64_t classes = 0;  // all classes of the run; unmatched ones start from the seed
};

// The parts of a model that a new run does not copy unchanged from the checkpoint that it starts from.
struct StartedParts {
  std::vector<FreshPart> fresh;  // parts that are fresh as a whole
  std::vector<MatchedPart> matched;
};

struct SavedCheckpoint {
  std::string path;
  Bytes bytes = 0;
  Seconds waited = 0;  // the total time that instructions of later steps waited for the save
};

// The outcome of making the second copy of a checkpoint (`checkpoint.copy`).
struct CheckpointCopy {
  int64_t step = 0;
  std::string path;  // the same on every host
  Bytes bytes = 0;   // on all hosts
  Seconds seconds = 0;
  std::string fault;  // why there is no copy; empty: it is durable
};

// Implemented by runtime/checkpoint. Called from the trainer's thread between two steps.
class CheckpointStore {
 public:
  virtual ~CheckpointStore() = default;
  // Saves the state after `step` steps and `samples` samples. It is durable when the call returns.
  virtual Result<SavedCheckpoint> save(const TrainState& state, int64_t step, int64_t samples) = 0;
  // Like `save`, but returns at once and saves in the background. The caller may change the state meanwhile:
  // instructions call `guard` before they change it, and the caller calls read_rest() before any other change.
  // REQUIRES: no save is under way; no class rows lie in files. A store that cannot save in the background saves before
  // it returns.
  virtual Status begin_save(const TrainState& state, int64_t step, int64_t samples) {
    XRUN_ASSIGN(begun_, save(state, step, samples));
    return {};
  }
  // The guard that later steps must call before they change the state; null: they need no guard.
  virtual ChangeGuard* guard() { return nullptr; }
  // Reads the parts of the state that the save under way has not read yet.
  virtual void read_rest() {}
  // Returns the checkpoint of begin_save once it is durable, and nullopt before; with `wait`, waits until it is
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
    // XG0703: another instruction set or library wrote it, so later steps may differ in bits. XG0704: the training data
    // had another number of samples. XG0718: it has the residuals of another number of senders.
    std::vector<WarnEvent> warnings;
    std::vector<Record> records;  // the best steps of all evaluations up to the resumed step
  };
  virtual Result<std::optional<Resumed>> resume(TrainState& state) = 0;
  // The classes of the checkpoint that `resume` would load; nullopt if there is no checkpoint. Collective.
  virtual Result<std::optional<ClassTables>> classes() { return std::optional<ClassTables>(); }
  // Sets the classes of the run, which later checkpoints store. REQUIRES: called before `resume` and `start_from`.
  virtual void keep_classes(ClassTables /*classes*/) {}

  // Implements `init = checkpoint(path, skip)`: copies weights and running statistics of another run into a new one, by
  // name, except those at and below the paths of `skip`. Rows of classes are matched by the names of the classes; rows
  // that the checkpoint lacks are initialised from the seed. If the checkpoint has no row of a head, or of the layer
  // that makes dense logits, that part keeps its initial values and is returned as fresh.
  virtual Result<StartedParts> start_from(const std::string& path, const std::vector<std::string>& skip,
                                          TrainState& state) = 0;
  // Creates files of zeros for the class rows that the plan keeps in files, and maps them. Called only if the run does
  // not resume. A store without files leaves such rows in memory. Errors: kWorld, kContent.
  virtual Status make_rows(TrainState& /*state*/) { return {}; }
  // Called after an evaluation. Later saves store the records, and the checkpoints of the best steps are not removed.
  virtual Status remember(const std::vector<Record>& /*records*/) { return {}; }
  // Ends the use of the store, which changes no file after this call. REQUIRES: no save is under way.
  virtual Status finish() { return {}; }

 private:
  std::optional<SavedCheckpoint> begun_;
};

}  // namespace xrun::runtime
