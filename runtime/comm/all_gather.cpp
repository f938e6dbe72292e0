// Parts are sent in rounds of at most kMostBroadcast bytes of each part. The completion of the last broadcast of a
// round begins the next round, so no rank is ahead of another by more than a round, and no thread is needed.
#include "runtime/comm/all_gather.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "graph/base/check.h"

namespace xrun::runtime {

struct AllGather::State : std::enable_shared_from_this<State> {
  State(Communicator& c, int number) : communicator(c), channel(number) {}

  // REQUIRES: no broadcast is under way.
  void begin_round();
  void complete(Status completed);
  bool over() const { return missing == 0 || !status.ok(); }

  Communicator& communicator;  // called only while it exists: by `begin`, and by completions without an error
  const int channel;
  std::vector<Part> parts;
  Bytes sent = 0;    // bytes of each part that are sent when the current round ends
  std::mutex mutex;  // guards all members below
  std::condition_variable changed;
  size_t missing = 0;  // number of broadcasts of the round that have not completed
  Status status;
};

void AllGather::State::begin_round() {
  std::vector<Part> round;
  for (const Part& part : parts) {
    const Bytes size = std::min(kMostBroadcast, static_cast<Bytes>(part.bytes.size()) - sent);
    if (size > 0) {
      round.push_back({part.rank, part.bytes.subspan(static_cast<size_t>(sent), static_cast<size_t>(size))});
    }
  }
  sent += kMostBroadcast;
  {
    const std::lock_guard lock(mutex);
    missing = round.size();
    changed.notify_all();
  }
  for (const Part& part : round) {
    const auto done = [](void* context, int32_t, Status completed, Seconds) {
      const std::unique_ptr<std::shared_ptr<State>> state(static_cast<std::shared_ptr<State>*>(context));
      (*state)->complete(std::move(completed));
    };
    communicator.broadcast(channel, part.rank, part.bytes,
                           {.done = done, .context = new std::shared_ptr<State>(shared_from_this())});
  }
}

void AllGather::State::complete(Status completed) {
  {
    const std::lock_guard lock(mutex);
    if (status.ok() && !completed.ok()) {
      status = std::move(completed);
      changed.notify_all();
    }
    if (!status.ok() || missing > 1) {
      --missing;
      return;
    }
  }
  begin_round();
}

AllGather::AllGather(Communicator& communicator, int channel)
    : state_(std::make_shared<State>(communicator, channel)) {}

AllGather::~AllGather() { cancel(); }

void AllGather::begin(std::vector<Part> parts) {
  {
    const std::lock_guard lock(state_->mutex);
    XRUN_CHECK(state_->over(), "gathers of one channel follow one another");
    if (!state_->status.ok()) {
      return;
    }
  }
  state_->parts = std::move(parts);
  state_->sent = 0;
  state_->begin_round();
}

Status AllGather::wait() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->over(); });
  return state_->status;
}

void AllGather::cancel() {
  const std::lock_guard lock(state_->mutex);
  if (state_->status.ok()) {
    state_->status = Error{ErrorKind::kInterrupted, "", "the run ends", ""};
  }
  state_->changed.notify_all();
}

}  // namespace xrun::runtime
