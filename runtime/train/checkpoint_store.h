// The trainer's interface to checkpoints: saving the state of a run, and resuming or starting a run from one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/train/class_tables.h"
#include "runtime/train/events.h"

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
  int64_t keep = 0;     // checkpoints kept for it; with 0, `best` still holds one step
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

// The parts of a model that a run does not simply take over from the checkpoint that it starts from.
struct StartedParts {
  std::vector<FreshPart> fresh;  // parts that are fresh as a whole
  std::vector<MatchedPart> matched;
};

struct SavedCheckpoint {
  std::string path;
  Bytes bytes = 0;
  Seconds waited = 0;  // the total time that instructions of later steps waited for it
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
  // Begins to save it in the background, and returns. The state may change from then on: by instructions that `guard`
  // guards, and by others after read_rest(). REQUIRES: no save is under way; no class rows lie in files. A store that
  // cannot save in the background saves before it returns.
  virtual Status begin_save(const TrainState& state, int64_t step, int64_t samples) {
    XRUN_ASSIGN(begun_, save(state, step, samples));
    return {};
  }
  // The guard for the steps from now on; null: they need no guard.
  virtual ChangeGuard* guard() { return nullptr; }
  // Reads the parts of the state that the save under way has not read yet.
  virtual void read_rest() {}
  // The checkpoint that was begun, once it is durable; nullopt before. Collective, with the same `wait` on all ranks,
  // while a save is under way: `wait` waits for its end. After an error no save is under way.
  virtual Result<std::optional<SavedCheckpoint>> saved(bool /*wait*/) { return std::exchange(begun_, std::nullopt); }
  // The second copies that have ended, or were given up, since the last call. Copies are made while steps run, once a
  // checkpoint is durable. Collective, with the same `wait` on all ranks; `wait` waits for all copies. An error comes
  // from one of the ranks, not from a copy.
  virtual Result<std::vector<CheckpointCopy>> copies(bool /*wait*/) { return std::vector<CheckpointCopy>(); }
  // Loads the saved state into `state`; nullopt if there is no checkpoint to resume from.
  struct Resumed {
    int64_t step = 0;
    std::string path;
    // XG0703: another instruction set or library wrote it, so later steps may differ in bits. XG0704: the training data
    // had another number of samples. XG0718: it has the residuals of another number of senders.
    std::vector<WarnEvent> warnings;
    std::vector<Record> records;  // best steps among the evaluations up to the resumed step
  };
  virtual Result<std::optional<Resumed>> resume(TrainState& state) = 0;
  // The classes of the checkpoint that `resume` goes on from, by input (ClassTables); nullopt if there is no
  // checkpoint. Collective.
  virtual Result<std::optional<ClassTables>> classes() { return std::optional<ClassTables>(); }
  // The classes of the run, which checkpoints keep from now on. REQUIRES: called before `resume` and `start_from`.
  virtual void keep_classes(ClassTables /*classes*/) {}

  // `init = checkpoint(path, skip)`: copies weights and running statistics of another run into a new one, by name,
  // except those at and below the paths of `skip`. Rows of classes are taken by the names of the classes; rows that the
  // checkpoint lacks are initialised from the seed. A head that has no row in the checkpoint keeps its initial values,
  // and so does the layer that makes dense logits; these parts are returned as fresh.
  virtual Result<StartedParts> start_from(const std::string& path, const std::vector<std::string>& skip,
                                          TrainState& state) = 0;
  // For a run that resumes nothing: creates files, filled with zeros, for the class rows that the plan keeps in files,
  // and maps them. A store without files leaves such rows in memory. Errors: kWorld, kContent.
  virtual Status make_rows(TrainState& /*state*/) { return {}; }
  // Called after an evaluation. Later saves store the records, and checkpoints of steps in them are not removed.
  virtual Status remember(const std::vector<Record>& /*records*/) { return {}; }
  // The store changes no file after this call. REQUIRES: no save is under way.
  virtual Status finish() { return {}; }

 private:
  std::optional<SavedCheckpoint> begun_;
};

}  // namespace xrun::runtime
