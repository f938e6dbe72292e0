// The task queues of a CPU device, and the rule by which threads take tasks from them.
#pragma once

#include <array>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/device/device.h"

namespace xrun::runtime {

// A runner is a thread that takes one task after the other until no queued task may run. A stream runs one task at a
// time. Threads: any.
class TaskStreams {
 public:
  explicit TaskStreams(int most_runners) : most_runners_(most_runners) {}

  // Adds a task. Returns true if the caller must start a runner.
  bool push(DeviceStream stream, Task task);
  // Returns the next task for a runner that has finished the task `last`. After nullopt the runner ends, and must not
  // access this object again, since the object may be destroyed then.
  struct Taken {
    DeviceStream stream = DeviceStream::kCompute;
    Task task;
  };
  std::optional<Taken> next(const std::optional<Taken>& last);
  // Whether no runner is active.
  bool idle() const;

 private:
  // A ring buffer that grows and never shrinks.
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
  mutable std::mutex mutex_;  // guards all members below
  std::array<Stream, kDeviceStreams> streams_;
  int runners_ = 0;
};

}  // namespace xrun::runtime
