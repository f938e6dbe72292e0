// Fills rows of batches in order, by short tasks of low priority, for the loader and for evaluations.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <tbb/task_arena.h>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/stop.h"
#include "graph/base/units.h"

namespace xrun::runtime {

// Low-priority tasks, which use workers that the devices leave idle. A worker takes tasks of higher priority only
// between two tasks. So a task fills rows only until kReadingTask has passed, and another task continues with the next
// row: a device waits for a worker at most for that time and one row.
//
// Threads: start, begin, wait and stop belong to one thread, not a worker of this arena.
class RowTasks {
 public:
  // Fills row `row` of a batch; called by any number of tasks at once.
  using FillRow = std::function<Status(int64_t batch, int64_t row)>;
  // Seconds of a clock that only goes forward.
  using Clock = std::function<Seconds()>;
  // Limits the wait for a read that does not return. Once `stop` is set, `wait` gives up after `seconds`
  // (kInterrupted). Then stop() calls `on_stuck` with the name of the source; `on_stuck` must not return, since running
  // tasks cannot be abandoned.
  struct Patience {
    StopFlag stop = nullptr;
    Seconds seconds = 5;
    std::function<void(const std::string& name)> on_stuck;
  };

  //   name     name of the source, for errors
  //   workers  tasks that may run at once
  //   clock    null: the system clock
  //   patience limit of the wait for rows that are still being read when the run was asked to end
  RowTasks(std::string name, int workers, FillRow fill, Clock clock, Patience patience);
  ~RowTasks() { stop(); }
  RowTasks(const RowTasks&) = delete;
  RowTasks& operator=(const RowTasks&) = delete;

  // Starts with batch `first_batch`; batches have `rows` rows. At most `slots` batches have begun without having been
  // waited for. REQUIRES: stopped.
  void start(int64_t first_batch, int64_t rows, int slots);
  // Allows tasks to fill the next batch. REQUIRES: the batch that is `slots` before it has been waited for.
  void begin();
  // Whether the batch is complete.
  bool ready(int64_t batch) { return rows_left(batch) == 0; }
  // Returns when the batch is complete. Errors: the error of the first failed row in order, unless that row belongs to
  // a later batch; no row is begun after a failure. kInterrupted once the patience is over.
  Status wait(int64_t batch);
  // Returns when no row is being filled; rows that were not begun stay unfilled.
  void stop();

 private:
  template <typename Done>
  bool wait_patiently(std::unique_lock<std::mutex>& lock, Done done);
  void run_task();
  std::optional<int64_t> take_row();
  void fill(int64_t position);
  Status fill_within_memory(int64_t position);
  std::atomic<int64_t>& rows_left(int64_t batch) { return rows_left_[static_cast<size_t>(batch) % rows_left_.size()]; }

  const std::string name_;
  const int workers_;
  const FillRow fill_;
  const Clock clock_;
  const Patience patience_;
  tbb::task_arena arena_;

  int64_t rows_ = 0;                             // number of rows of a batch
  std::vector<std::atomic<int64_t>> rows_left_;  // index: slot; rows of the batch in it that are not filled yet
  // Positions are counted over all batches: batch · rows + row.
  std::atomic<int64_t> next_{0};    // the first position that no task has taken
  std::atomic<int64_t> end_{0};     // end of the positions that tasks may take
  std::atomic<bool> ended_{false};  // whether `stop` or an error has ended the filling

  std::mutex mutex_;  // guards the members below, and the changes that wait and stop wait for
  std::condition_variable changed_;
  int tasks_ = 0;  // number of tasks queued or running
  std::optional<Error> error_;
  int64_t error_position_ = 0;
};

}  // namespace xrun::runtime
