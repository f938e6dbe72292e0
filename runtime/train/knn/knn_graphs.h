// Builds the graphs of nearest classes in the background while steps run. A graph is built from a snapshot of the class
// weights after one step, and used from a later step on. Both steps depend only on the model, and a step waits for a
// graph that is not ready, so every run of a model selects the same classes, however long a build takes. With several
// ranks, each rank takes a snapshot of its own rows and builds a share of the lists of neighbours; then all ranks
// exchange their rows and lists (runtime/train/knn/knn_ranks.h).
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/settings/specs.h"
#include "graph/settings/step_sizes.h"
#include "ops/simd/isa.h"
#include "runtime/device/background_work.h"
#include "runtime/train/events/events.h"
#include "runtime/train/session/session.h"

namespace xrun::runtime {

// Computes the steps at which builds begin and from which their lists are used. Build k copies the weights after k
// rebuild periods. Build 0 copies the initial weights, and exists only if these come from a checkpoint of another run.
class GraphSchedule {
 public:
  // `samples`: samples in an epoch.
  GraphSchedule(const TrainSpec& train, int64_t samples);

  int64_t first() const { return at_start_ ? 0 : 1; }
  // The number of steps done when a build copies the weights, and when its lists are first used.
  int64_t begin_of(int64_t build) const;
  int64_t use_of(int64_t build) const;
  // The first build whose lists come into use after `done` steps or later.
  int64_t next(int64_t done) const;

 private:
  // The time of the start of a build, in units of samples, or in steps if `rebuild` is in steps.
  int64_t time_of(int64_t build) const;
  int64_t step_at(int64_t time) const { return in_steps_ ? time : sizes_.step_at(time); }

  StepSizes sizes_;
  bool in_steps_ = false;
  double period_ = 1;
  int64_t delay_ = 0;
  bool at_start_ = false;
};

// Checks that the run is long enough to use a graph. Errors: kContent XG0214. `samples`: samples in an epoch.
Status check_graphs(const TrainSpec& train, int64_t samples);

// Returns the warning XG0819 if a step waited for most of the duration of a build. The message proposes a longer
// rebuild period and, for an exact graph, an approximate one.
//   build   duration of the build
//   waited  the part of that time during which a step waited
std::optional<WarnEvent> slow_build(const std::string& head, bool exact, Seconds build, Seconds waited);

// Returns the warning XG0820 if an approximate graph, built with `probes` cells, lacks over a tenth of the neighbours.
std::optional<WarnEvent> poor_graph(const std::string& head, double recall, int64_t probes);

// Runs the builds for all heads with lists of nearest classes. Threads: the trainer's, between steps.
class ClassGraphs {
 public:
  // All arguments outlive the object. `stop`: see TrainRequest.
  ClassGraphs(Session& session, int64_t samples, ops::Isa isa, const std::atomic<bool>* stop, EventSink& events);
  ~ClassGraphs();

  // Prepares for the step after the first `done` steps. REQUIRES: the state was loaded or initialised. Errors: kContent
  // XG0818, the checkpoint lacks the graph for the next steps; kWorld XG0803, no thread can be started for a build.
  Status begin(int64_t done);
  // Whether `before_step` will change lists or snapshots that checkpoints contain.
  bool change_before(int64_t done) const;
  // Call before each step, when `done` steps are done. Starts the builds that begin now, and waits for the builds whose
  // lists the next step uses. Errors: kInterrupted, this or another rank was asked to stop; kWorld XG0803, the system
  // cannot start a thread; kWorld, the error of another rank.
  Status before_step(int64_t done);
  // Waits for the builds under way. Errors: those of before_step.
  Status wait_for_builds();
  // Switches to `session`, in which later steps run, and which has taken over the memory of the previous session.
  // REQUIRES: no build is under way.
  void move_to(Session& session);
  // Waits until the snapshots that a checkpoint would contain have the rows of all ranks. Errors: kWorld, the error of
  // another rank.
  Status before_save();

 private:
  struct Graph;
  void bind(Graph& graph);
  Result<Seconds> wait_for(Graph& graph);
  void take_snapshot(Graph& graph);
  Status build(Graph& graph);
  Status use(Graph& graph, int64_t done);
  void warn(const Graph& graph, const std::string& head, Seconds waited);

  Session* session_;
  GraphSchedule schedule_;
  ops::Isa isa_;
  const std::atomic<bool>* stop_;
  EventSink& events_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // one for each head with lists of neighbours
  bool told_slow_ = false;
  bool told_poor_ = false;
};

}  // namespace xrun::runtime
