// Makes the saves of a run: decides when a save is due, and saves either between two steps or in the background while
// later steps run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "graph/base/result.h"
#include "graph/settings/run_spec.h"
#include "graph/settings/specs.h"
#include "runtime/train/clock/run_clock.h"
#include "runtime/train/events/events.h"
#include "runtime/train/knn/knn_graphs.h"
#include "runtime/train/save_interval.h"
#include "runtime/train/session/session.h"
#include "runtime/train/state/checkpoint_store.h"

namespace xrun::runtime {

// Threads: the trainer's, between steps. All functions are collective, with the same arguments on all ranks.
class Saves {
 public:
  // All arguments outlive the object. If `store` is null, nothing is saved. `now` returns the time since the start.
  Saves(const TrainSpec& train, const RunSpec& run, CheckpointStore* store, const RunClock& clock, Session& session,
        ClassGraphs& graphs, EventSink& events, std::function<Seconds()> now);

  // Call when steps are about to begin; the first `step` steps need no save.
  void begin(int64_t step);
  // Whether to save after `step` steps.
  Result<bool> due(int64_t step);
  // Saves after `step` steps, or begins a background save, once the previous save has ended. Errors: those of the
  // store, also from the previous save.
  Status save(int64_t step);
  // Switches to `session`, in which later steps run. REQUIRES: no save is under way.
  void move_to(Session& session) { session_ = &session; }
  // Whether a save was begun after `step` steps or later.
  bool has(int64_t step) const { return step <= step_; }
  // Call after each step: reports the background save once it is durable, and second copies that have ended. Errors:
  // those of the store.
  Status look();
  // Waits for the save in the background to end. Errors: those of the store.
  Status finish() { return follow(true); }
  // Call at the end of the run, after its last save: waits for second copies, and warns if some checkpoints have no
  // copy. Errors: those of the store.
  Status finish_copies();
  // Call before the graphs of classes change. This code changes them, not an instruction, so the guard of a background
  // save is not called for them; this call makes the save read the graphs first.
  void before_graphs_change();
  // The path of the newest durable checkpoint; empty if no checkpoint is durable.
  const std::string& path() const { return path_; }
  void resumed_from(std::string path) { path_ = std::move(path); }

 private:
  // A save in the background.
  struct UnderWay {
    int64_t step = 0;
    Seconds begin = 0;
    Seconds waited = 0;
  };

  Status follow(bool wait);
  void tell(int64_t step, SavedCheckpoint saved, Seconds seconds, Seconds waited);
  Status follow_copies(bool wait);

  const TrainSpec& train_;
  const RunSpec& run_;
  CheckpointStore* store_;
  const RunClock& clock_;
  Session* session_;
  ClassGraphs& graphs_;
  EventSink& events_;
  std::function<Seconds()> now_;
  bool copies_;                           // whether second copies are made
  std::optional<SaveInterval> interval_;  // for `checkpoint.every = auto`, once steps begin
  std::optional<UnderWay> under_way_;
  int64_t step_ = 0;  // steps done when a save was last begun
  std::string path_;
  int64_t not_copied_ = 0;  // number of checkpoints without a second copy
  CheckpointCopy last_not_copied_;
};

}  // namespace xrun::runtime
