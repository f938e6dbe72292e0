// The events that a run reports (docs/reference/command/progress.md, "Progress"), and the work under way between them.
// The printers (bar, lines, JSON) implement EventSink.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "runtime/executor/step_profile.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/events/line_means.h"

namespace xrun::runtime {

// The active classes of a head in a step.
struct ActiveReport {
  std::string head;
  int64_t classes = 0;  // the number of active classes
  double near = 0;      // the share of the active classes that come from lists of nearest classes
  double common = 0;    // the share of the active classes that were also active in the previous step
  // The sum of the softmax over the active classes, with all classes in its denominator, averaged over the rows; NaN
  // if the step did not measure it.
  double mass = std::numeric_limits<double>::quiet_NaN();
};

// The measured numbers of one step, and of the steps since the last line, reported by `step` events.
struct StepReport {
  int64_t step = 0;  // steps done: the first step reports 1
  double epoch = 0;
  double loss = 0;  // mean over the rows, or sum with `reduce = sum`; added in f64 and in row order
  double lr = 0;
  double grad_norm = 0;                                 // 0 if the run does not clip by norm
  std::vector<std::pair<std::string, double>> metrics;  // mean over the rows
  std::vector<ActiveReport> active;                     // one entry for each head with active classes
  LineReport line;                                      // the steps since the last line, including this one
  int64_t batch = 0;
  bool batch_grows = false;
  Seconds seconds = 0;         // duration of the whole step, including the wait for data
  Seconds predicted_step = 0;  // prediction for steps with this batch size; 0: unknown
  Seconds compute = 0;         // this and the next two are maxima over the devices: see DeviceTimes
  Seconds exposed_comm = 0;
  Seconds bubble = 0;
  std::vector<DeviceTimes> devices;  // the devices of this rank
  Seconds data_wait = 0;
  Bytes memory = 0;    // size of all arenas
  Bytes resident = 0;  // memory of the process in RAM; 0 if the system does not report it
};

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

// The time of a step, divided by device and kind of instruction: means over `steps` steps from `first_step` on.
struct ProfileEvent {
  int64_t first_step = 0;  // counted from 1
  int64_t steps = 0;
  Seconds step = 0;  // for each device: the sum of `data_wait`, `outside` and the rows of that device
  Seconds data_wait = 0;
  Seconds outside = 0;  // time before the first instruction and after the last one
  Seconds predicted_step = 0;
  std::vector<ProfileRow> rows;
};

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

// The kinds of work that may take long.
enum class Work : uint8_t {
  kNone,      // the previous work has ended
  kOpen,      // a source of data
  kPrepare,   // kernels, memory or weights: the subject says which
  kLoad,      // a checkpoint
  kSave,      // a checkpoint
  kCopy,      // a second copy of a checkpoint, at the end of a run
  kData,      // waiting for the batch of a step
  kStep,      // a step of training
  kEvaluate,  // samples of a source
  kPredict,
};

// Reported before each piece of work, and again after each of its parts, so that printers can explain a pause. kData is
// reported only if the batch of a step is not ready and the step has to wait.
struct WorkEvent {
  Work work = Work::kNone;
  std::string_view subject;  // valid until the call returns
  int64_t done = 0;          // steps of the run, or samples
  int64_t total = 0;         // 0: the work has no parts
};

// Receives the events of a run. All calls except `on_interrupt` and warnings about late ranks (XG0844) come from the
// trainer's thread, in the order of events. `wants_step` is called before each step; if it returns true, the step is
// timed, its loss and metrics are read, and `on_step` is called after it. `due` is true every log.every steps and for
// the last step of the run.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void on_work(const WorkEvent&) {}
  virtual void on_start(const StartEvent&) {}
  virtual void on_plan(const PlanEvent&) {}
  virtual void on_resume(int64_t /*step*/, const std::string& /*path*/) {}
  virtual void on_note(const std::string& /*message*/) {}  // a fact about the run that is not a warning
  virtual bool wants_step(bool /*due*/) { return false; }
  virtual void on_step(const StepReport&, bool /*due*/) {}
  virtual void on_eval(const EvalEvent&) {}
  virtual void on_graph(const GraphEvent&) {}
  virtual void on_checkpoint(const CheckpointEvent&) {}
  virtual void on_copy(const CopyEvent&) {}
  virtual void on_profile(const ProfileEvent&) {}
  virtual void on_warn(const WarnEvent&) {}
  virtual void on_stop(const StopEvent&) {}  // `stop_when` ends the run
  virtual void on_end(const EndEvent&) {}
  // The run was asked to stop and will do so. Called from any thread, once, before `on_end` has returned.
  virtual void on_interrupt() {}
};

}  // namespace xrun::runtime
