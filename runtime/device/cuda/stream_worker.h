// A stream of a GPU with two threads of the host: one runs the tasks that queue work, and one waits for the end of
// work.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/device/cuda/driver/stream.h"
#include "runtime/device/device.h"

namespace xrun::cuda {

// Threads: any calls `start`, `when_ended` and `idle`.
class StreamWorker {
 public:
  // Makes the stream, and starts its threads. The context outlives the worker. Errors: kWorld, also if the system
  // refuses a thread.
  static Result<std::unique_ptr<StreamWorker>> make(const Context& context);
  // Runs all queued tasks, and waits for the end of all work.
  ~StreamWorker();
  StreamWorker(const StreamWorker&) = delete;
  StreamWorker& operator=(const StreamWorker&) = delete;

  // The stream. Tasks of this worker queue work in it, and may call its other functions.
  Stream& stream() { return *stream_; }
  // Queues a task, which runs after all tasks that were started before, with the context current in its thread. Never
  // blocks.
  void start(runtime::Task task);
  // Calls `done` when all work that is in the stream now has ended, with the error of that work, or else with `status`.
  // The calls of `done` have the order of the calls of this function; another thread makes them. REQUIRES: called by a
  // task of this worker.
  void when_ended(runtime::CopyDone done, Status status = {});
  // Whether no task is running or queued, and no work is waited for.
  bool idle() const;

 private:
  explicit StreamWorker(std::unique_ptr<Stream> stream) : stream_(std::move(stream)) {}
  // The end of work, which `event` records; null if the recording failed.
  struct End {
    std::unique_ptr<Event> event;
    Status status;
    runtime::CopyDone done;
  };
  void run_tasks();
  void wait_for_ends();
  Result<std::unique_ptr<Event>> record_event();

  const std::unique_ptr<Stream> stream_;
  mutable std::mutex mutex_;  // guards all members below, except the threads
  std::condition_variable changed_;
  std::deque<runtime::Task> tasks_;
  std::deque<End> ends_;
  std::vector<std::unique_ptr<Event>> free_events_;
  int64_t open_ = 0;  // tasks and ends that are queued or under way
  bool stops_ = false;
  std::thread task_thread_;
  std::thread end_thread_;
};

}  // namespace xrun::cuda
