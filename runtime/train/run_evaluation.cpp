// Evaluations during a run, and the decisions that follow from them.
#include <utility>

#include "runtime/train/evaluation/inference.h"
#include "runtime/train/training_run.h"

namespace xrun::runtime {

Status TrainingRun::evaluate_now() {
  if (request_.inference == nullptr || request_.eval_sources.empty() || train_.measured().empty()) {
    return {};
  }
  const CountedAs counted(reports_.line(), LineMeans::Activity::kEvaluation);
  const auto start = Clock::now();
  if (evaluator_ == nullptr) {
    request_.events.on(WorkEvent{.work = Work::kPrepare, .subject = "the evaluation"});
    XRUN_TRY(session_->agree(make_evaluator()));
  }
  evaluator_->state().copy_from(session_->state());
  XRUN_TRY(session_->agree(evaluator_->weights_changed()));
  Peers* const peers = request_.session.peers;
  const Bytes before = peers == nullptr ? 0 : peers->sent_to_hosts();
  auto evaluated = evaluate(*evaluator_, request_.eval_sources, &request_.events, request_.stop);
  evaluation_sent_ += peers == nullptr ? 0 : peers->sent_to_hosts() - before;
  if (!evaluated.ok() && evaluated.error().kind == ErrorKind::kInterrupted) {
    interrupted_ = true;
    return {};
  }
  XRUN_ASSIGN(Evaluation evaluation, std::move(evaluated));
  request_.events.on(EvalEvent{.step = done_,
                               .metrics = evaluation.metrics,
                               .sources = std::move(evaluation.sources),
                               .seconds = since(start),
                               .verified = std::move(evaluation.verified)});
  return follow(evaluation.metrics);
}

Status TrainingRun::make_evaluator() {
  XRUN_ASSIGN(evaluator_,
              Session::create(*request_.inference_module, *request_.inference, request_.devices, request_.session));
  return evaluator_->state().share_rows(session_->state());
}

// Handles the results of an evaluation: saves the step if it is one of the best and not saved yet, and checks
// `stop_when`.
Status TrainingRun::follow(const std::vector<Measured>& metrics) {
  records_.add(done_, metrics);
  if (records_.is_best(done_) && !saves_.has(done_)) {
    XRUN_TRY(save());
  }
  if (request_.checkpoints != nullptr && !records_.empty()) {
    XRUN_TRY(session_->agree(request_.checkpoints->remember(records_.all())));
  }
  if (const auto reason = records_.stop_reason(done_, metrics)) {
    stopped_ = true;
    request_.events.on(StopEvent{.step = done_, .reason = *reason});
  }
  return {};
}

}  // namespace xrun::runtime
