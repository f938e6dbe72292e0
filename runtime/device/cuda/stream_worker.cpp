// Tests: tests/cuda/cuda_devices_test.cpp
#include "runtime/device/cuda/stream_worker.h"

#include <fmt/format.h>
#include <system_error>
#include <utility>

namespace xrun::cuda {

Result<std::unique_ptr<StreamWorker>> StreamWorker::make(const Context& context) {
  XRUN_ASSIGN(auto stream, Stream::make(context));
  std::unique_ptr<StreamWorker> worker(new StreamWorker(std::move(stream)));
  try {
    worker->task_thread_ = std::thread([self = worker.get()] { self->run_tasks(); });
    worker->end_thread_ = std::thread([self = worker.get()] { self->wait_for_ends(); });
  } catch (const std::system_error& error) {
    return Error{ErrorKind::kWorld, "XG0803",
                 fmt::format("cuda:{}: the system refuses a thread: {}", context.gpu(), error.what()),
                 "raise the limit of threads (`ulimit -u`, pids.max of the control group)"};
  }
  return worker;
}

// Tasks may add ends, and a callback of an end may start tasks, so both threads go on until nothing is open.
StreamWorker::~StreamWorker() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    changed_.notify_all();
  }
  for (std::thread* thread : {&task_thread_, &end_thread_}) {
    if (thread->joinable()) {
      thread->join();
    }
  }
}

void StreamWorker::start(runtime::Task task) {
  const std::lock_guard lock(mutex_);
  ++open_;
  tasks_.push_back(task);
  changed_.notify_all();
}

void StreamWorker::when_ended(runtime::CopyDone done, Status status) {
  Result<std::unique_ptr<Event>> event = record_event();
  const std::lock_guard lock(mutex_);
  ++open_;
  if (event.ok()) {
    ends_.push_back({std::move(event).value(), std::move(status), done});
  } else {
    ends_.push_back({nullptr, status.ok() ? std::move(event).error() : std::move(status).error(), done});
  }
  changed_.notify_all();
}

bool StreamWorker::idle() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0;
}

Result<std::unique_ptr<Event>> StreamWorker::record_event() {
  std::unique_ptr<Event> event;
  {
    const std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      event = std::move(free_events_.back());
      free_events_.pop_back();
    }
  }
  if (event == nullptr) {
    XRUN_ASSIGN(event, Event::make(stream_->context()));
  }
  XRUN_TRY(stream_->record(*event));
  return event;
}

void StreamWorker::run_tasks() {
  // If the context cannot be made current, the first call of each task reports it.
  (void)stream_->context().make_current();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !tasks_.empty() || (stops_ && open_ == 0); });
    if (tasks_.empty()) {
      return;
    }
    const runtime::Task task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    task.run(task.context, task.argument);
    lock.lock();
    if (--open_ == 0) {
      changed_.notify_all();
    }
  }
}

void StreamWorker::wait_for_ends() {
  (void)stream_->context().make_current();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !ends_.empty() || (stops_ && open_ == 0); });
    if (ends_.empty()) {
      return;
    }
    End end = std::move(ends_.front());
    ends_.pop_front();
    lock.unlock();
    if (end.event != nullptr) {
      if (Status status = end.event->synchronise(); !status.ok()) {
        end.status = std::move(status);
      }
    }
    end.done.done(end.done.context, std::move(end.status));
    lock.lock();
    if (end.event != nullptr) {
      free_events_.push_back(std::move(end.event));
    }
    if (--open_ == 0) {
      changed_.notify_all();
    }
  }
}

}  // namespace xrun::cuda
