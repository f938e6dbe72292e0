// Tests: tests/runtime/data/loader_test.cpp
#include "runtime/data/order/row_tasks.h"

#include <algorithm>
#include <chrono>
#include <new>

#include "graph/base/check.h"
#include "graph/settings/reading_task.h"

namespace xrun::runtime {
namespace {

Seconds system_clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

RowTasks::RowTasks(std::string name, int workers, FillRow fill, Clock clock, Patience patience)
    : name_(std::move(name)),
      workers_(std::max(1, workers)),
      fill_(std::move(fill)),
      clock_(clock ? std::move(clock) : Clock(&system_clock)),
      patience_(std::move(patience)),
      arena_(workers_, 0, tbb::task_arena::priority::low) {}

void RowTasks::start(int64_t first_batch, int64_t rows, int slots) {
  XRUN_CHECK(rows_left_.empty(), "row tasks that run are started");
  XRUN_CHECK(slots > 0, "no slot for a batch");
  rows_ = rows;
  rows_left_ = std::vector<std::atomic<int64_t>>(static_cast<size_t>(slots));
  next_ = end_ = first_batch * rows;
  ended_ = false;
  error_.reset();
}

void RowTasks::begin() {
  const int64_t batch = end_ / std::max<int64_t>(rows_, 1);
  rows_left(batch) = rows_;
  const std::scoped_lock lock(mutex_);
  end_ += rows_;
  const int64_t wanted = ended_ ? 0 : std::min<int64_t>(workers_, end_ - next_);
  for (; tasks_ < wanted; ++tasks_) {
    arena_.enqueue([this] { run_task(); });
  }
}

Status RowTasks::wait(int64_t batch) {
  std::unique_lock lock(mutex_);
  // After an error, rows that were begun are still being filled while tasks run. These rows may complete the batch, or
  // an earlier one of them may fail.
  const bool done = wait_patiently(lock, [&] { return rows_left(batch) == 0 || (error_.has_value() && tasks_ == 0); });
  if (!done) {
    return Error{ErrorKind::kInterrupted, "", "stopped while a read of `" + name_ + "` did not end", "run again"};
  }
  return rows_left(batch) == 0 ? Status() : Status(*error_);
}

void RowTasks::stop() {
  ended_ = true;
  std::unique_lock lock(mutex_);
  if (!wait_patiently(lock, [&] { return tasks_ == 0; }) && patience_.on_stuck) {
    patience_.on_stuck(name_);
  }
  changed_.wait(lock, [&] { return tasks_ == 0; });
  rows_left_.clear();
}

// Waits until `done` returns true. Returns false if a stop was requested and the patience has passed since then.
template <typename Done>
bool RowTasks::wait_patiently(std::unique_lock<std::mutex>& lock, Done done) {
  constexpr auto kLook = std::chrono::milliseconds(100);
  std::optional<std::chrono::steady_clock::time_point> asked;
  while (!changed_.wait_for(lock, kLook, done)) {
    if (patience_.stop == nullptr || !patience_.stop->load(std::memory_order_relaxed)) {
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    asked = asked.value_or(now);
    if (std::chrono::duration<double>(now - *asked).count() >= patience_.seconds) {
      return false;
    }
  }
  return true;
}

void RowTasks::run_task() {
  const Seconds begin = clock_();
  do {
    const std::optional<int64_t> position = take_row();
    if (!position) {
      break;
    }
    fill(*position);
  } while (clock_() - begin < kReadingTask);
  // The last access to `this` is under the lock, so stop() cannot return while this task still uses the object.
  const std::scoped_lock lock(mutex_);
  if (!ended_ && next_ < end_) {
    arena_.enqueue([this] { run_task(); });
  } else if (--tasks_ == 0) {
    changed_.notify_all();
  }
}

std::optional<int64_t> RowTasks::take_row() {
  int64_t position = next_;
  while (!ended_ && position < end_) {
    if (next_.compare_exchange_weak(position, position + 1)) {
      return position;
    }
  }
  return std::nullopt;
}

void RowTasks::fill(int64_t position) {
  Status done = fill_within_memory(position);
  if (done.ok()) {
    if (--rows_left(position / rows_) == 0) {
      const std::scoped_lock lock(mutex_);
      changed_.notify_all();
    }
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (!error_.has_value() || position < error_position_) {
    error_ = std::move(done).error();
    error_position_ = position;
  }
  ended_ = true;
}

// Turns exceptions into errors, since no exception may leave a task that was enqueued.
Status RowTasks::fill_within_memory(int64_t position) {
  try {
    return fill_(position / rows_, position % rows_);
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::kWorld, "", "out of memory while reading the source `" + name_ + "`",
                 "close other programs, or give the run more memory"};
  }
}

}  // namespace xrun::runtime
