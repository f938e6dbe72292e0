#include "runtime/train/watch/work_deadline.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace xrun::runtime {

void UsualTime::add(Seconds duration) {
  durations_[count_ % kKept] = duration;
  ++count_;
}

Seconds UsualTime::longest_but_one() const {
  if (count_ < kLeast) {
    return 0;
  }
  auto sorted = durations_;
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(count_, kKept));
  std::nth_element(sorted.begin(), sorted.begin() + 1, end, std::greater<>());
  return sorted[1];
}

void WorkDeadline::begin(const WorkEvent& event, Seconds now) {
  const bool same_step =
      learned_as(work_) == Work::kStep && learned_as(event.work) == Work::kStep && done_ == event.done;
  if (!same_step) {
    if (has_deadline(work_)) {
      usual_[learned_as(work_)].add(now - began_);
    }
    began_ = now;
  }
  work_ = event.work;
  done_ = event.done;
  looked_ = now;
  lasts_ = 0;
}

WorkDeadline::State WorkDeadline::look(Seconds now, Cause cause) {
  const Seconds passed = std::clamp(now - looked_, 0.0, kMostPassed);
  looked_ = std::max(looked_, now);
  lasts_ = cause == cause_ ? lasts_ + passed : 0;
  cause_ = cause;
  State state{.work = work_, .cause = cause, .step = done_ + 1, .seconds = lasts_};
  if (work_ == Work::kNone) {
    return state;
  }
  if (cause == Cause::kMessages) {
    state.late = lasts_ > kLeast;
    state.hangs = timeout_ > 0 && lasts_ > timeout_;
    return state;
  }
  if (!has_deadline(work_)) {
    state.late = cause == Cause::kOwn && timeout_ > 0 && lasts_ > timeout_;
    return state;
  }
  const auto learned = usual_.find(learned_as(work_));
  state.usual = learned == usual_.end() ? 0 : learned->second.longest_but_one();
  const Seconds deadline = std::max(timeout_, kHangs * state.usual);
  if (cause == Cause::kOwn) {
    state.late = lasts_ > (state.usual > 0 ? std::max(kLeast, kLate * state.usual) : kUnknown);
    state.hangs = timeout_ > 0 && lasts_ > deadline;
  } else {
    state.hangs = timeout_ > 0 && lasts_ > 2 * deadline;
  }
  return state;
}

}  // namespace xrun::runtime
