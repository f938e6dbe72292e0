// The streams of a CPU device: tasks that wait, and who may take the next one.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/device/device.h"

namespace xrun::runtime {

// Threads that take tasks are called runners here: each takes one task after the other until none is left that may run.
// Of one stream one task runs at a time. Threads: any.
class TaskStreams {
 public:
  explicit TaskStreams(int most_runners) : most_runners_(most_runners) {}

  // Adds a task. True: the caller has to start a runner.
  bool push(DeviceStream stream, Task task);
  // The next task for a runner, which has ended the one that it had (`last`). None: the runner ends, and touches
  // nothing here any more.
  struct Taken {
    DeviceStream stream = DeviceStream::kCompute;
    Task task;
  };
  std::optional<Taken> next(const std::optional<Taken>& last);
  // Whether no runner is left.
  bool idle() const;

 private:
  // A queue in a ring, which grows and does not shrink.
  class Queue {
   public:
    bool empty() const { return count_ == 0; }
    void push(Task task);
    Task pop();

   private:
    std::vector<Task> ring_;
    size_t first_ = 0;
    size_t count_ = 0;
  };
  struct Stream {
    Queue queue;
    bool running = false;
  };

  const int most_runners_;
  mutable std::mutex mutex_;  // of all below
  std::array<Stream, kDeviceStreams> streams_;
  int runners_ = 0;
};

}  // namespace xrun::runtime
