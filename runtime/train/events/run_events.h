// Events of a run outside its steps: its start and end, evaluations, checkpoints, graphs of classes, and warnings.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/base/units.h"
#include "runtime/executor/step_times.h"

namespace xrun::runtime {

struct PlanEvent {
  std::string plan;
  std::string file;  // the plan file that was read, which matches sources and machine; empty: a new plan
};

struct StartEvent {
  std::string model;
  std::string plan;
  int devices = 1;
  int64_t first_step = 0;
  int64_t steps = 0;                   // steps of the whole run
  int64_t steps_per_epoch = 0;         // rounded up; if the batch grows, with its first size
  double epochs = 0;                   // epochs of the whole run: RunClock::epochs
  int64_t samples = 0;                 // samples in an epoch
  int64_t all_samples = 0;             // samples of the whole run
  std::vector<std::string> synthetic;  // sources of the run whose samples are made up
  int64_t batch = 0;
  int64_t last_batch = 0;  // if the batch grows, its last size; else 0
  Seconds predicted_step = 0;
  Bytes memory = 0;          // size of the arenas mapped now
  Bytes memory_planned = 0;  // all memory that the plan counts
  Bytes memory_usable = 0;   // the limit that the plan was made for
  int ranks = 1;
  std::string hosts;  // for several ranks: "2 on a, 2 on b"
};

struct ResumeEvent {
  int64_t step = 0;  // steps done
  std::string path;  // the checkpoint
};

// A fact about the run that is not a warning.
struct NoteEvent {
  std::string message;
};

// A metric over all samples of a source. Its key is that of `eval`, or "source" / "source.metric".
struct Measured {
  std::string key;
  double value = 0;
  bool synthetic = false;  // the samples are made up
};

// Counts the labels of a source for an input that may lack some (graph/layouts/partial_labels.h).
struct LabelCount {
  std::string input;
  int64_t labels = 0;
  int64_t all = 0;  // samples, or their positions
  bool positions = false;
};

struct MeasuredSource {
  std::string name;
  int64_t samples = 0;  // samples that were measured
  int64_t broken = 0;   // samples that were left out
  bool synthetic = false;
  std::vector<LabelCount> labels;  // labels that metrics compare with, if `ignore` lets some be missing
};

struct EvalEvent {
  int64_t step = 0;
  std::vector<Measured> metrics;
  std::vector<MeasuredSource> sources;
  Seconds seconds = 0;
};

// Reports that steps use a new graph of nearest classes from the next step on.
struct GraphEvent {
  int64_t step = 0;  // steps done
  std::string head;
  int64_t of_step = 0;  // steps done when the weights for the build were taken
  double recall = 1;    // the share of the true nearest classes that the lists contain; 1 for an exact graph
  Seconds seconds = 0;  // duration of the build, in the background
  Seconds waited = 0;   // time in which a step waited for the build to end
};

struct CheckpointEvent {
  int64_t step = 0;
  std::string path;
  Seconds seconds = 0;  // from the start of the save until it is durable
  Seconds waited = 0;   // how long steps waited for the save: all of `seconds`, unless it ran in the background
  Bytes bytes = 0;
  Seconds interval = 0;  // time until the next save with `checkpoint.every = auto`; 0: steps decide
};

// Reports that the second copy of a checkpoint is durable (`checkpoint.copy`).
struct CopyEvent {
  int64_t step = 0;
  std::string path;
  Seconds seconds = 0;
  Bytes bytes = 0;  // bytes on all hosts
};

// Reports that `stop_when` ends the run.
struct StopEvent {
  int64_t step = 0;
  std::string reason;  // "yen is 99.12 %, and stop_when = yen >= 99%"
};

struct WarnEvent {
  std::string code;  // "XG0811"
  std::string message;
};

struct EndEvent {
  int64_t step = 0;
  int64_t steps = 0;    // steps of the whole run
  double loss = 0;      // loss of the last step (after an error: of the last reported step); NaN without one
  std::string weights;  // XXH3-128, 32 hex digits
  int exit = 0;
  std::string saved;      // the last checkpoint that was saved or resumed; empty: no checkpoint
  std::string leave_out;  // flags to leave out of the command so that it resumes from `saved`; empty: no flags
  Seconds seconds = 0;
  int64_t bad_samples = 0;
  int64_t timed_steps = 0;           // timed steps since the start
  std::vector<DeviceTimes> devices;  // the devices of this rank: sums over the timed steps
  std::vector<Bytes> host_sent;      // index: host; average bytes sent to other hosts in a step; empty: one host
  // Memory of the process: its arenas, including those of evaluation; its peak before the first arena was mapped; and
  // its peak so far.
  Bytes arenas = 0;
  Bytes peak_before_arenas = 0;
  Bytes peak_resident = 0;
};

// Reports that the run was asked to stop and will do so.
struct InterruptEvent {};

}  // namespace xrun::runtime
