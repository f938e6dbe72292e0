// The start of a run: resumes from a checkpoint or sets the initial weights, and reports the start.
// Tests: tests/runtime/train/trainer_test.cpp
#include <algorithm>
#include <filesystem>

#include "graph/layouts/compression.h"
#include "graph/settings/group_rules.h"
#include "graph/settings/reader_def.h"
#include "runtime/train/training_run.h"

namespace xrun::runtime {

void TrainingRun::report_start() {
  request_.events.on(StartEvent{.model = request_.module.model,
                                .plan = request_.plan_id,
                                .devices = request_.training.devices,
                                .first_step = done_,
                                .steps = total_,
                                .steps_per_epoch = (samples_ + train_.unit() - 1) / train_.unit(),
                                .epochs = clock_.epochs(),
                                .samples = samples_,
                                .all_samples = clock_.samples_after(total_),
                                .synthetic = synthetic_sources(request_.module.data),
                                .batch = train_.unit(),
                                .last_batch = train_.growth ? train_.batch : 0,
                                .predicted_step = prediction().step,
                                .memory = session_->memory(),
                                .memory_planned = request_.memory_planned,
                                .memory_usable = request_.memory_usable,
                                .ranks = request_.training.ranks,
                                .hosts = request_.hosts});
}

Status TrainingRun::prepare() {
  TrainState& state = session_->state();
  if (request_.checkpoints != nullptr && request_.resume) {
    request_.events.on(WorkEvent{.work = Work::kLoad, .subject = "the latest checkpoint"});
    XRUN_ASSIGN(const auto resumed, request_.checkpoints->resume(state));
    if (resumed) {
      resumed_ = true;
      done_ = first_ = resumed->step;
      saves_.resumed_from(resumed->path);
      if (done_ > total_) {
        return Error{ErrorKind::kContent, "XG0815",
                     resumed->path + " has done " + format_count(done_) + " steps, but the whole run has " +
                         format_count(total_),
                     "train longer than that: raise `epochs` or `steps`", train_.span};
      }
      records_.restore(resumed->records, done_);
      XRUN_TRY(request_.checkpoints->remember(records_.all()));
      request_.events.on(ResumeEvent{done_, resumed->path});
      for (const WarnEvent& warning : resumed->warnings) {
        request_.events.on(warning);
      }
    }
  }
  if (!resumed_ && request_.checkpoints != nullptr) {
    XRUN_TRY(request_.checkpoints->make_rows(state));
  }
  if (!resumed_ && !train_.init_checkpoint.empty()) {
    XRUN_TRY(start_from(std::filesystem::path(train_.directory) / train_.init_checkpoint));
  } else if (!resumed_) {
    initialise({});
  }
  if (!resumed_ && train_.ema > 0) {
    session_->state().begin_means();
  }
  follow_clock();
  XRUN_TRY(graphs_.begin(done_));
  return session_->weights_changed();
}

void TrainingRun::initialise(const std::function<bool(const StateTensor&)>& wanted) {
  request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "the initial weights"});
  session_->state().initialise(train_.seed, wanted, request_.run.moved);
}

// Initialises the state from the checkpoint of `init = checkpoint(path)`.
Status TrainingRun::start_from(const std::string& path) {
  XRUN_CHECK(request_.checkpoints != nullptr, "a run begins from a checkpoint, and no store reads it");
  request_.events.on(WorkEvent{.work = Work::kLoad, .subject = path});
  XRUN_ASSIGN(const auto started, request_.checkpoints->start_from(path, request_.run.init_skip, session_->state()));
  const std::vector<FreshPart>& fresh = started.fresh;
  const auto name_of = [](const auto& part) {
    return std::string(part.head ? "the head `" : "the layer `") + part.path + "`";
  };
  for (const FreshPart& part : fresh) {
    request_.events.on(
        WarnEvent{"XG0813", name_of(part) + " is not in " + path + " with these classes: it starts from the seed"});
  }
  for (const MatchedPart& part : started.matched) {
    request_.events.on(NoteEvent{
        name_of(part) + ": " + format_count(part.matched) + " of " + format_count(part.classes) + " classes are in " +
        path + (part.by_name ? " by name" : " by number") + " and start from its rows" +
        (part.matched < part.classes ? ", " + format_count(part.classes - part.matched) + " start from the seed"
                                     : "")});
  }
  initialise([&](const StateTensor& tensor) {
    const auto holds = [&](const std::string& path_of_part) { return is_below(path_of_part, tensor.name); };
    return tensor.role == StateTensor::Role::kOptimizer || tensor.role == StateTensor::Role::kResidual ||
           std::any_of(
               fresh.begin(), fresh.end(),
               [&](const FreshPart& part) { return part.head ? tensor.head == part.path : holds(part.path); }) ||
           std::any_of(request_.run.init_skip.begin(), request_.run.init_skip.end(), holds);
  });
  return {};
}

// Sets all values in the session that depend on the progress of the run.
void TrainingRun::follow_clock() {
  session_->follow([this](int64_t step) { return clock_.rate(step); }, done_);
  if (const CompressSpec& compress = train_.compress; compress.warmup) {
    session_->compress_by([this, &compress, units = compress.warmup->steps(samples_, train_.unit())](int64_t step) {
      return density_at(compress, units, clock_.sizes().begin_of(step));
    });
  }
}

}  // namespace xrun::runtime
