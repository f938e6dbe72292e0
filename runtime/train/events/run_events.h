// Events of a run outside its steps: its start and end, evaluations, checkpoints, graphs of classes, and warnings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/events/verified_pairs.h"

namespace xrun::runtime {

struct PlanEvent {
  std::string plan;
  std::string file;  // the plan file that was used; empty: the plan was made for this run
};

struct StartEvent {
  std::string model;
  std::string plan;
  int devices = 1;
  int64_t first_step = 0;
  int64_t steps = 0;                   // steps of the whole run
  int64_t steps_per_epoch = 0;         // steps in an epoch, rounded up; if the batch grows, with its first size
  double epochs = 0;                   // epochs of the whole run: RunClock::epochs
  int64_t samples = 0;                 // samples in an epoch
  int64_t all_samples = 0;             // samples of the whole run
  std::vector<std::string> synthetic;  // sources of the run whose samples are artificial
  int64_t batch = 0;
  int64_t last_batch = 0;  // last batch size if the batch grows; else 0
  Seconds predicted_step = 0;
  Bytes memory = 0;          // size of the arenas that are mapped now
  Bytes memory_planned = 0;  // total memory according to the plan
  Bytes memory_usable = 0;   // memory limit for which the plan was made
  int ranks = 1;
  std::string hosts;  // ranks of each host if there are several ranks: "2 on a, 2 on b"
};

struct ResumeEvent {
  int64_t step = 0;  // steps done at the checkpoint
  std::string path;  // path of the checkpoint
};

// Reports a fact about the run that is not a warning.
struct NoteEvent {
  std::string message;
};

// The value of a metric over all samples of a source. Its key is that in `eval`, or "source" / "source.metric".
struct Measured {
  std::string key;
  double value = 0;
  bool synthetic = false;  // whether the samples are artificial
};

// Counts the labels of a source for a partial label, which some samples lack (graph/layouts/partial_labels.h).
struct LabelCount {
  std::string input;
  int64_t labels = 0;
  int64_t all = 0;  // number of samples, or of their label positions
  bool positions = false;
};

struct MeasuredSource {
  std::string name;
  int64_t samples = 0;  // samples that were measured
  int64_t broken = 0;   // broken samples, which were left out
  bool synthetic = false;
  std::vector<LabelCount> labels;  // labels that metrics compare with, if samples may lack them
};

struct EvalEvent {
  int64_t step = 0;
  std::vector<Measured> metrics;
  std::vector<MeasuredSource> sources;
  Seconds seconds = 0;
  std::vector<VerifiedPairs> verified;  // details of the metrics that are `verification`
};

// Reports that steps use a new graph of nearest classes from the next step on.
struct GraphEvent {
  int64_t step = 0;  // number of steps done
  std::string head;
  int64_t of_step = 0;  // steps done when the class weights for this build of the graph were copied
  double recall = 1;    // share of the true nearest classes that the graph contains; 1 for an exact graph
  Seconds seconds = 0;  // duration of the build of the graph, in the background
  Seconds waited = 0;   // time that a step waited for this build of the graph to finish
};

struct CheckpointEvent {
  int64_t step = 0;
  std::string path;
  Seconds seconds = 0;  // from the start of the save until it is durable
  Seconds waited = 0;   // time that steps waited for the save: all of `seconds`, unless the save ran in the background
  Bytes bytes = 0;
  Seconds interval = 0;  // time until the next save with `checkpoint.every = auto`; 0: saves are due by steps
};

// Reports that the second copy of a checkpoint is durable (`checkpoint.copy`).
struct CopyEvent {
  int64_t step = 0;
  std::string path;
  Seconds seconds = 0;
  Bytes bytes = 0;  // size of the copy, over all hosts
};

// Reports that `stop_when` ends the run.
struct StopEvent {
  int64_t step = 0;
  std::string reason;  // "yen is 99.12 %, and stop_when = yen >= 99%"
};

struct WarnEvent {
  std::string code;  // code of the warning: "XG0811"
  std::string message;
};

struct EndEvent {
  int64_t step = 0;
  int64_t steps = 0;    // number of steps of the whole run
  double loss = 0;      // loss of the last step (after an error: of the last reported step); NaN: no such step
  std::string weights;  // digest of the weights: XXH3-128, 32 hex digits
  int exit = 0;
  std::string saved;      // path of the last checkpoint that was saved or resumed; empty: no checkpoint
  std::string leave_out;  // flags to leave out of the command so that it resumes from `saved`; empty: no flags
  Seconds seconds = 0;
  int64_t bad_samples = 0;
  int64_t timed_steps = 0;           // number of steps since the start that were timed
  std::vector<DeviceTimes> devices;  // the devices of this rank: sums over the timed steps
  std::vector<Bytes> host_sent;      // index: host; mean bytes that it sent to other hosts per step; empty: one host
  // Memory of the process: the size of its arenas, including those of evaluation; its peak before the first arena was
  // mapped; and its peak so far.
  Bytes arenas = 0;
  Bytes peak_before_arenas = 0;
  Bytes peak_resident = 0;
};

// Reports that the run was asked to stop, and that it will stop.
struct InterruptEvent {};

}  // namespace xrun::runtime
