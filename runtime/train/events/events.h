// The events that a run reports (docs/reference/command/progress.md, "Progress"), and the interface of their sinks. The
// printers (bar, lines, JSON) implement EventSink.
#pragma once

#include <variant>

#include "runtime/train/events/run_events.h"
#include "runtime/train/events/step_events.h"

namespace xrun::runtime {

using Event = std::variant<WorkEvent, StartEvent, PlanEvent, ResumeEvent, NoteEvent, StepEvent, EvalEvent, GraphEvent,
                           CheckpointEvent, CopyEvent, ProfileEvent, WarnEvent, StopEvent, EndEvent, InterruptEvent>;

// Receives the events of a run. Threads: an InterruptEvent comes from any thread, once, before the call with the
// EndEvent has returned; a warning about late ranks (XG0844) also comes from another thread. All other calls come from
// the trainer's thread, in the order of the events.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // The event and the data that it refers to are valid until the call returns; a sink copies the data that it keeps.
  virtual void on(const Event& event) = 0;
  // Called before each step. If it returns true, the step is timed, its loss and metrics are read, and it is reported
  // by a StepEvent. `due` is true every log.every steps and for the last step of the run.
  virtual bool wants_step(bool /*due*/) { return false; }
};

// Ignores all events.
class NullSink : public EventSink {
 public:
  void on(const Event& /*event*/) override {}
};

}  // namespace xrun::runtime
