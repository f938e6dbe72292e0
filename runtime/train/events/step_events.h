// Events of steps and of the current work: reports of steps and profiles, and the work that a run is doing.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/base/units.h"
#include "runtime/executor/median_times.h"
#include "runtime/executor/step_profile.h"
#include "runtime/executor/step_times.h"
#include "runtime/train/events/line_means.h"

namespace xrun::runtime {

// The active classes of a head in a step.
struct ActiveReport {
  std::string head;
  int64_t classes = 0;  // the number of active classes
  double near = 0;      // share of the active classes that come from lists of nearest classes
  double common = 0;    // the share of the active classes that were also active in the previous step
  // The sum of the softmax over the active classes, with all classes in its denominator, averaged over the rows; NaN
  // if the step did not measure it.
  double mass = std::numeric_limits<double>::quiet_NaN();
};

// Measurements of one step, and of the steps since the last progress line; reported by StepEvent.
struct StepReport {
  int64_t step = 0;  // number of steps done: 1 after the first step
  double epoch = 0;
  double loss = 0;  // mean over the rows, or sum with `reduce = sum`; added in f64 in row order
  double lr = 0;
  double grad_norm = 0;                                 // 0 if the run does not clip by norm
  double loss_scale = 0;                                // scale of the loss in this step; 0 if the run has none
  int64_t skipped_steps = 0;                            // steps of the run up to this one that made no update
  std::vector<std::pair<std::string, double>> metrics;  // mean of each metric over the rows
  std::vector<ActiveReport> active;                     // one entry for each head with active classes
  LineReport line;                                      // the steps since the last progress line, including this one
  int64_t batch = 0;
  bool batch_grows = false;
  Seconds seconds = 0;         // duration of the whole step, including the wait for data
  Seconds predicted_step = 0;  // predicted duration of steps with this batch size; 0: unknown
  Seconds compute = 0;         // this and the next two are maxima over the devices: see DeviceTimes
  Seconds exposed_comm = 0;
  Seconds bubble = 0;
  std::vector<DeviceTimes> devices;  // the devices of this rank
  Seconds data_wait = 0;
  Bytes memory = 0;    // size of all arenas
  Bytes resident = 0;  // memory of the process in RAM; 0 if the system does not report it
};

// Reports a step for which a sink has asked (EventSink::wants_step), after the step.
struct StepEvent {
  const StepReport& report;  // valid until the call returns
  bool due = false;          // the argument `due` of EventSink::wants_step
};

// The time of steps, by device and kind of instruction: means over `steps` steps, which begin with `first_step`.
struct ProfileEvent {
  int64_t first_step = 0;  // number of the first step, counted from 1
  int64_t steps = 0;
  Seconds step = 0;  // duration of a step: for each device the sum of `data_wait`, `outside` and its rows
  Seconds data_wait = 0;
  Seconds outside = 0;  // time of a step before its first instruction and after its last one
  Seconds predicted_step = 0;
  std::vector<ProfileRow> rows;
  // The medians over the steps of a step and of each instruction of the plan. Empty if the steps are smaller than those
  // of the plan, as while a batch grows.
  Seconds median_step = 0;
  std::vector<MedianTime> instructions;
};

// The kinds of work that may take long.
enum class Work : uint8_t {
  kNone,      // no work: the previous work has ended
  kOpen,      // opening a source of data
  kPrepare,   // preparing kernels, memory or weights, according to the subject
  kLoad,      // loading a checkpoint
  kSave,      // saving a checkpoint
  kCopy,      // making a second copy of a checkpoint, at the end of a run
  kData,      // waiting for the batch of a step
  kStep,      // a step of training
  kEvaluate,  // evaluating samples of a source
  kPredict,
  kConvert,  // writing samples of a source in another format
};

// Reported before each piece of work, and again after each of its parts, so that printers can show why a run pauses.
// kData is reported only if the batch of a step is not ready and the step has to wait.
struct WorkEvent {
  Work work = Work::kNone;
  std::string_view subject;  // valid until the call returns
  int64_t done = 0;          // steps of the run, or samples, that are done
  int64_t total = 0;         // 0: the work has no parts
};

}  // namespace xrun::runtime
