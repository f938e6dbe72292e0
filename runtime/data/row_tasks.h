// Rows of batches, filled in order by short tasks of low priority: what the loader and the rows of an evaluation share.
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

// Tasks of an arena of low priority take the workers that the devices leave. A worker looks for tasks of a higher
// priority between two tasks only, so a task takes rows one by one until kReadingTask has passed, and another task goes
// on where it ended: a device waits for a worker as long as that and one row.
//
// Threads: start, begin, wait and stop belong to one thread, which is no worker of this arena.
class RowTasks {
 public:
  // Fills row `row` of a batch; called by any number of tasks at once.
  using FillRow = std::function<Status(int64_t batch, int64_t row)>;
  // Seconds of a clock that only goes forward.
  using Clock = std::function<Seconds()>;
  // Once `stop` is set, `wait` gives up after `seconds` (kInterrupted), and so does `stop()`: it calls `on_stuck` with
  // the name, which must not return, for tasks that still run cannot be left behind.
  struct Patience {
    StopFlag stop = nullptr;
    Seconds seconds = 5;
    std::function<void(const std::string& name)> on_stuck;
  };

  //   name     of what is read, for the error of a machine that is out of memory
  //   workers  tasks that may run at once
  //   clock    null: the system's
  //   patience of a run that was asked to end, with rows whose reading does not
  RowTasks(std::string name, int workers, FillRow fill, Clock clock, Patience patience);
  ~RowTasks() { stop(); }
  RowTasks(const RowTasks&) = delete;
  RowTasks& operator=(const RowTasks&) = delete;

  // Batches of `rows` rows follow, numbered from `first_batch`, of which `slots` are under way or waited for at a time.
  // REQUIRES: stopped.
  void start(int64_t first_batch, int64_t rows, int slots);
  // Lets the rows of the next batch be filled. REQUIRES: the batch that is `slots` before it has been waited for.
  void begin();
  // Whether the batch is complete.
  bool ready(int64_t batch) { return rows_left(batch) == 0; }
  // Returns when the batch is complete. Errors: that of the first row in order that failed, if it is not after the
  // batch; no row is begun after it.
  Status wait(int64_t batch);
  // Returns when no row is being filled; rows that were not begun are left out.
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

  int64_t rows_ = 0;                             // of a batch
  std::vector<std::atomic<int64_t>> rows_left_;  // not filled yet, of each batch under way
  // Positions are counted over all batches: batch · rows + row.
  std::atomic<int64_t> next_{0};    // the first that no task has taken
  std::atomic<int64_t> end_{0};     // after the last that may be taken
  std::atomic<bool> ended_{false};  // by stop or an error

  std::mutex mutex_;  // guards what follows, and changes that wait and stop look for
  std::condition_variable changed_;
  int tasks_ = 0;  // queued or running
  std::optional<Error> error_;
  int64_t error_position_ = 0;
};

}  // namespace xrun::runtime
