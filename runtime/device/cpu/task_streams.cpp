#include "runtime/device/cpu/task_streams.h"

#include <algorithm>

namespace xrun::runtime {

void TaskStreams::Queue::push(Task task) {
  if (count_ == ring_.size()) {
    std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(first_), ring_.end());
    first_ = 0;
    ring_.resize(std::max<size_t>(64, ring_.size() * 2));
  }
  ring_[(first_ + count_++) % ring_.size()] = task;
}

Task TaskStreams::Queue::pop() {
  const Task task = ring_[first_];
  first_ = (first_ + 1) % ring_.size();
  --count_;
  return task;
}

bool TaskStreams::push(DeviceStream stream, Task task) {
  const std::lock_guard lock(mutex_);
  Stream& one = streams_[static_cast<size_t>(stream)];
  one.queue.push(task);
  // No runner is needed if the stream has one, which will check the queue again, or if all runners are active.
  if (one.running || runners_ == most_runners_) {
    return false;
  }
  ++runners_;
  return true;
}

std::optional<TaskStreams::Taken> TaskStreams::next(const std::optional<Taken>& last) {
  const std::lock_guard lock(mutex_);
  if (last) {
    streams_[static_cast<size_t>(last->stream)].running = false;
  }
  for (const DeviceStream stream : {DeviceStream::kExchanges, DeviceStream::kCompute}) {
    Stream& one = streams_[static_cast<size_t>(stream)];
    if (!one.running && !one.queue.empty()) {
      one.running = true;
      return Taken{stream, one.queue.pop()};
    }
  }
  --runners_;
  return std::nullopt;
}

bool TaskStreams::idle() const {
  const std::lock_guard lock(mutex_);
  return runners_ == 0;
}

}  // namespace xrun::runtime
