// The graphs of nearest classes of a run: each is built beside the steps, from the class weights after one step, and
// used from a later step on. Both steps follow from the model alone, so that every run of it selects the same classes,
// however long a build takes; a step whose graph is not there yet waits for it. Of several ranks, each takes a snapshot
// of its rows and builds a share of the lists (runtime/train/graph_ranks.h); all have all rows and lists.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/specs.h"
#include "ops/isa.h"
#include "runtime/background_work.h"
#include "runtime/train/events.h"
#include "runtime/train/session.h"

namespace xrun::runtime {

// Builds have numbers. Build k takes the weights after so many steps as k periods have; number 0, of the first weights,
// is made where these were learned by another run.
class GraphSchedule {
 public:
  // `samples`: of an epoch.
  GraphSchedule(const TrainSpec& train, int64_t samples);

  int64_t first() const { return at_start_ ? 0 : 1; }
  // Steps that are done when a build takes its weights, and when its lists are first used.
  int64_t begin_of(int64_t build) const;
  int64_t use_of(int64_t build) const { return begin_of(build) + (build == 0 ? 0 : delay_); }
  // The first build whose lists are not in use before `done` steps are done.
  int64_t next(int64_t done) const;

 private:
  double period_ = 1;  // steps
  int64_t delay_ = 0;
  bool at_start_ = false;
};

// Errors: kContent XG0214, the run ends before a step uses a graph. `samples`: of an epoch.
Status check_graphs(const TrainSpec& train, int64_t samples);

// XG0819 where steps wait for most of a build: a longer period costs them less, and an approximate graph does where it
// is exact. `waited`: of the `build` seconds.
std::optional<WarnEvent> slow_build(const std::string& head, bool exact, Seconds build, Seconds waited);

// XG0820 where an approximate graph that compares with `probes` cells misses more than a tenth of the nearest classes.
std::optional<WarnEvent> poor_graph(const std::string& head, double recall, int64_t probes);

// Threads: the trainer's, between steps.
class ClassGraphs {
 public:
  // All outlive the object. `stop` as in TrainRequest.
  ClassGraphs(Session& session, int64_t samples, ops::Isa isa, const std::atomic<bool>* stop, EventSink& events);
  ~ClassGraphs();

  // After the state was loaded or given its first values: goes on where `done` steps are done. Errors: kContent XG0818,
  // a checkpoint without a graph that the next steps use; kWorld XG0803.
  Status begin(int64_t done);
  // Before the step after `done` of them: begins what is to be begun, and waits for what is to be used. Errors:
  // kInterrupted, this rank or another one was asked to stop; kWorld XG0803, the system lets no thread start; kWorld,
  // what another rank says.
  Status before_step(int64_t done);
  // Waits until the snapshots that a checkpoint would hold have the rows of all ranks. Errors: kWorld, of another rank.
  Status before_save();

 private:
  struct Graph;
  void take_snapshot(Graph& graph);
  Status build(Graph& graph);
  Status use(Graph& graph, int64_t done);
  void warn(const Graph& graph, const std::string& head, Seconds waited);

  Session& session_;
  GraphSchedule schedule_;
  ops::Isa isa_;
  const std::atomic<bool>* stop_;
  EventSink& events_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // of the heads that have one
  bool told_slow_ = false;
  bool told_poor_ = false;
};

}  // namespace xrun::runtime
