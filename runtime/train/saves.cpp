// Tests: tests/runtime/checkpoint/store_test.cpp, tests/runtime/runs/extended_run_test.cpp
#include "runtime/train/saves.h"

#include <fmt/format.h>
#include <utility>

#include "graph/base/units.h"

namespace xrun::runtime {

Saves::Saves(const TrainSpec& train, const RunSpec& run, CheckpointStore* store, const RunClock& clock,
             Session& session, ClassGraphs& graphs, EventSink& events, std::function<Seconds()> now)
    : train_(train),
      run_(run),
      store_(store),
      clock_(clock),
      session_(&session),
      graphs_(graphs),
      events_(events),
      now_(std::move(now)),
      copies_(store != nullptr && !run.copy.empty()) {}

void Saves::begin(int64_t step) {
  step_ = step;
  if (run_.auto_save) {
    Bytes bytes = 0;
    const TrainState& state = session_->state();
    for (const StateTensor& tensor : state.tensors()) {
      for (const TensorPiece& piece : tensor.pieces) {
        bytes += tensor.first && state.is_saved(tensor) ? (piece.row_end - piece.row_begin) * tensor.row_bytes() : 0;
      }
    }
    interval_.emplace(run_.auto_save->mtbf, bytes);
    interval_->begin(step, now_());
  }
}

// With `checkpoint.every = auto`, rank 0 reads its clock and decides for all ranks.
Result<bool> Saves::due(int64_t step) {
  if (!interval_) {
    return clock_.is_due(train_.checkpoint_every, step);
  }
  if (!interval_->looks(step)) {
    return false;
  }
  SaveInterval::Look look = interval_->look(step, now_());
  if (Peers* peers = session_->peers(); peers != nullptr) {
    XRUN_ASSIGN(const std::string said, peers->broadcast(to_text(look)));
    look = look_of(said);
  }
  interval_->follow(look);
  return look.save;
}

Status Saves::save(int64_t step) {
  step_ = step;
  if (store_ == nullptr) {
    return {};
  }
  XRUN_TRY(follow(true));
  const int64_t samples = clock_.samples_after(step);
  const Seconds start = now_();
  events_.on(WorkEvent{.work = Work::kSave, .subject = "the checkpoint"});
  XRUN_TRY(graphs_.before_save());
  if (train_.checkpoint_async) {
    XRUN_TRY(store_->begin_save(session_->state(), step, samples));
    session_->guard(store_->guard());
    under_way_ = UnderWay{.step = step, .begin = start, .waited = now_() - start};
  } else {
    XRUN_ASSIGN(SavedCheckpoint saved, store_->save(session_->state(), step, samples));
    const Seconds seconds = now_() - start;
    tell(step, std::move(saved), seconds, seconds);
  }
  if (interval_) {
    interval_->begin(step, now_());
  }
  return {};
}

Status Saves::look() {
  XRUN_TRY(follow(false));
  return follow_copies(false);
}

Status Saves::finish_copies() {
  if (!copies_) {
    return {};
  }
  events_.on(WorkEvent{.work = Work::kCopy, .subject = "the second copy of the checkpoint"});
  XRUN_TRY(follow_copies(true));
  if (not_copied_ > 1) {  // the first such checkpoint was reported before
    events_.on(
        WarnEvent{"XG0823", fmt::format("{} checkpoints of this run have no second copy, the last of them {}: {}",
                                        format_count(not_copied_), last_not_copied_.path, last_not_copied_.fault)});
  }
  return {};
}

// Reports the second copies that have ended. If a copy fails, its checkpoint is complete, so the run continues. The
// first failure is reported by a warning, and the number of failures at the end of the run.
Status Saves::follow_copies(bool wait) {
  if (!copies_) {
    return {};
  }
  XRUN_ASSIGN(const auto ended, store_->copies(wait));
  for (const CheckpointCopy& copy : ended) {
    if (copy.fault.empty()) {
      events_.on(CopyEvent{.step = copy.step, .path = copy.path, .seconds = copy.seconds, .bytes = copy.bytes});
      continue;
    }
    if (not_copied_++ == 0) {
      events_.on(WarnEvent{
          "XG0823", fmt::format("no second copy {}: {}; the checkpoint itself is complete, and the run continues",
                                copy.path, copy.fault)});
    }
    last_not_copied_ = copy;
  }
  return {};
}

Status Saves::follow(bool wait) {
  if (!under_way_) {
    return {};
  }
  const Seconds start = now_();
  if (wait) {
    events_.on(WorkEvent{.work = Work::kSave, .subject = "the checkpoint"});
  }
  auto saved = store_->saved(wait);
  session_->guard(store_->guard());
  under_way_->waited += now_() - start;
  if (!saved.ok() || *saved) {
    const UnderWay ended = *std::exchange(under_way_, std::nullopt);
    XRUN_ASSIGN(auto durable, std::move(saved));
    const Seconds waited = ended.waited + durable->waited;
    tell(ended.step, std::move(*durable), now_() - ended.begin, waited);
  }
  return {};
}

void Saves::tell(int64_t step, SavedCheckpoint saved, Seconds seconds, Seconds waited) {
  path_ = saved.path;
  if (interval_) {
    interval_->took(waited, train_.checkpoint_async ? seconds : 0);
  }
  events_.on(CheckpointEvent{.step = step,
                             .path = std::move(saved.path),
                             .seconds = seconds,
                             .waited = waited,
                             .bytes = saved.bytes,
                             .interval = interval_ ? interval_->seconds() : 0});
}

void Saves::before_graphs_change() {
  if (under_way_) {
    store_->read_rest();
  }
}

}  // namespace xrun::runtime
