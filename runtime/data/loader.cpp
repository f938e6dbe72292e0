#include "runtime/data/loader.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <vector>

namespace xrun::runtime {
namespace {

// Rows a task: about a millisecond of glyphs, so that a task of a device never waits long for its worker.
constexpr int64_t kRunRows = 32;
// Replacements in a row before a source counts as unreadable.
constexpr uint64_t kMostAttempts = 64;
// Keeps the draws of replacements apart from those of the stages.
constexpr uint64_t kReplacementStage = 0x7265706c;

// The broken samples of a run: each is named once, and their share is limited.
class BadSamples {
 public:
  BadSamples(int64_t samples, const LoaderOptions& options)
      : all_wanted_(options.all_wanted),
        limit_(options.max_bad * static_cast<double>(samples)),
        samples_(samples),
        on_bad_(options.on_bad) {}

  // Notes a broken sample. Error XG0408 when there are too many.
  Status add(int64_t sample, const Error& error) {
    if (all_wanted_) {
      Error told = error;
      told.help = "replace it, or leave it out";
      return told;
    }
    const std::scoped_lock lock(mutex_);
    if (bad_.insert(sample).second) {
      untold_.push_back(error.message);
    }
    if (static_cast<double>(bad_.size()) > limit_) {
      return Error{.kind = ErrorKind::kContent,
                   .code = "XG0408",
                   .message = fmt::format("{} of {} samples are broken, more than `max_bad` allows; the last: {}",
                                          bad_.size(), samples_, error.message),
                   .help = "fix or remove the files, or raise `max_bad` in `data`"};
    }
    return {};
  }
  // Names those that were not named yet, on the calling thread.
  void tell() {
    std::vector<std::string> messages;
    {
      const std::scoped_lock lock(mutex_);
      messages.swap(untold_);
    }
    for (const std::string& message : messages) {
      if (on_bad_) {
        on_bad_(message);
      }
    }
  }
  int64_t count() const {
    const std::scoped_lock lock(mutex_);
    return static_cast<int64_t>(bad_.size());
  }

 private:
  bool all_wanted_;
  double limit_;
  int64_t samples_;
  std::function<void(const std::string&)> on_bad_;
  mutable std::mutex mutex_;
  std::set<int64_t> bad_;
  std::vector<std::string> untold_;
};

// Where each slot of the ring stands. Counters are set by the owner's thread before tasks of the slot exist.
struct Slot {
  BatchView view;
  int64_t step = -1;
  std::atomic<int64_t> runs_left{0};
};

class Loader final : public BatchSource {
 public:
  Loader(std::unique_ptr<SampleRows> rows, LoaderOptions options)
      : rows_(std::move(rows)),
        options_(std::move(options)),
        bad_(rows_->samples(), options_),
        arena_(std::max(1, options_.workers), 0, tbb::task_arena::priority::low) {}

  ~Loader() override { halt(); }

  int64_t samples() const override { return rows_->samples(); }
  int64_t bad_samples() const override { return bad_.count(); }

  Status start(int64_t first_step, std::span<const BatchView> ring) override {
    XRUN_CHECK(slots_.empty(), "a loader that runs is started");
    XRUN_CHECK(!ring.empty(), "a ring without slots");
    stopping_ = false;
    error_.reset();
    slots_ = std::vector<Slot>(ring.size());
    for (size_t i = 0; i < ring.size(); ++i) {
      const int64_t step = first_step + static_cast<int64_t>(i);
      slots_[static_cast<size_t>(step) % ring.size()].view = ring[static_cast<size_t>(step) % ring.size()];
    }
    for (size_t i = 0; i < ring.size(); ++i) {
      begin(first_step + static_cast<int64_t>(i));
    }
    return {};
  }

  Status wait(int64_t step) override {
    Slot& slot = slot_of(step);
    XRUN_CHECK(slot.step == step, "a step that was not begun is waited for");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return error_.has_value() || slot.runs_left == 0; });
    const std::optional<Error> error = error_;
    lock.unlock();
    bad_.tell();
    return error.has_value() ? Status(*error) : Status();
  }

  void release(int64_t step) override {
    XRUN_CHECK(slot_of(step).step == step, "a step that was not begun is released");
    begin(step + static_cast<int64_t>(slots_.size()));
  }

  void stop() override {
    halt();
    bad_.tell();
  }

 private:
  void halt() {
    stopping_ = true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return tasks_ == 0; });
    lock.unlock();
    slots_.clear();
  }

  Slot& slot_of(int64_t step) { return slots_[static_cast<size_t>(step) % slots_.size()]; }

  // Hands out the rows of a step as tasks.
  void begin(int64_t step) {
    Slot& slot = slot_of(step);
    const int64_t runs = (options_.batch + kRunRows - 1) / kRunRows;
    slot.step = step;
    slot.runs_left = runs;
    {
      const std::scoped_lock lock(mutex_);
      tasks_ += runs;
    }
    for (int64_t run = 0; run < runs; ++run) {
      arena_.enqueue([this, &slot, step, run] { fill_run(slot, step, run); });
    }
  }

  void fill_run(Slot& slot, int64_t step, int64_t run) {
    Status done;
    bool skip = stopping_;
    {
      const std::scoped_lock lock(mutex_);
      skip = skip || error_.has_value();
    }
    const int64_t end = skip ? 0 : std::min(options_.batch, (run + 1) * kRunRows);
    AugmentScratch& scratch = scratch_.local();
    for (int64_t row = run * kRunRows; row < end && done.ok() && !stopping_; ++row) {
      done = fill_row_within_memory(step * options_.batch + row, row, scratch, slot.view);
    }
    const std::scoped_lock lock(mutex_);
    if (!done.ok() && !error_.has_value()) {
      error_ = std::move(done).error();
    }
    --tasks_;
    // The last touch of `this` is under the lock, so stop() cannot return while a task is still here.
    if (--slot.runs_left == 0 || tasks_ == 0 || error_.has_value()) {
      changed_.notify_all();
    }
  }

  // Nothing may leave a task that was enqueued.
  Status fill_row_within_memory(int64_t run_position, int64_t row, AugmentScratch& scratch, const BatchView& view) {
    try {
      return fill_row(run_position, row, scratch, view);
    } catch (const std::bad_alloc&) {
      return Error{ErrorKind::kWorld, "", fmt::format("out of memory while reading the source `{}`", rows_->name()),
                   "close other programs, or give the run more memory"};
    }
  }

  Status fill_row(int64_t run_position, int64_t row, AugmentScratch& scratch, const BatchView& view) {
    const int64_t n = rows_->samples();
    const SamplePlace place = place_of(run_position, n, options_.seed, options_.shuffled);
    const auto epoch = static_cast<uint64_t>(place.epoch);
    int64_t sample = place.sample;
    for (uint64_t attempt = 0; attempt < kMostAttempts; ++attempt) {
      const DrawKey key{options_.seed, epoch, static_cast<uint64_t>(sample), true};
      Status done = rows_->fill(sample, key, scratch, view, row);
      if (done.ok() || !is_broken_sample(done.error())) {
        return done;
      }
      XRUN_TRY(bad_.add(sample, done.error()));
      const RandomStream stream(options_.seed, epoch, static_cast<uint64_t>(place.position), kReplacementStage);
      sample = static_cast<int64_t>(stream.below(attempt, static_cast<uint64_t>(n)));
    }
    return Error{.kind = ErrorKind::kContent,
                 .code = "XG0408",
                 .message = fmt::format("{} samples of source `{}` in a row are broken", kMostAttempts, rows_->name()),
                 .help = "fix or remove the files"};
  }

  std::unique_ptr<SampleRows> rows_;
  LoaderOptions options_;
  BadSamples bad_;
  tbb::task_arena arena_;
  tbb::enumerable_thread_specific<AugmentScratch> scratch_;
  std::vector<Slot> slots_;
  std::atomic<bool> stopping_{false};

  std::mutex mutex_;  // guards what follows, and the falling of runs_left
  std::condition_variable changed_;
  int64_t tasks_ = 0;
  std::optional<Error> error_;
};

class Rows final : public RowSource {
 public:
  Rows(std::unique_ptr<SampleRows> rows, LoaderOptions options)
      : rows_(std::move(rows)), options_(std::move(options)), bad_(rows_->samples(), options_) {}

  std::string_view name() const override { return rows_->name(); }
  int64_t samples() const override { return rows_->samples(); }

  Status read(int64_t first, int64_t rows, const BatchView& batch) override {
    XRUN_CHECK(first >= 0 && rows >= 0 && first + rows <= samples(), "rows outside the source");
    std::mutex mutex;
    std::optional<Error> error;
    std::atomic<bool> failed{false};
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, rows, kRunRows), [&](const tbb::blocked_range<int64_t>& range) {
      AugmentScratch& scratch = scratch_.local();
      for (int64_t row = range.begin(); row < range.end() && !failed; ++row) {
        const int64_t sample = first + row;
        const DrawKey key{options_.seed, 0, static_cast<uint64_t>(sample), false};
        Status done = rows_->fill(sample, key, scratch, batch, row);
        if (!done.ok() && is_broken_sample(done.error())) {
          rows_->zero(batch, row);
          done = bad_.add(sample, done.error());
        }
        if (!done.ok()) {
          const std::scoped_lock lock(mutex);
          failed = true;
          if (!error.has_value()) {
            error = std::move(done).error();
          }
        }
      }
    });
    bad_.tell();
    return error.has_value() ? Status(*std::move(error)) : Status();
  }

 private:
  std::unique_ptr<SampleRows> rows_;
  LoaderOptions options_;
  BadSamples bad_;
  tbb::enumerable_thread_specific<AugmentScratch> scratch_;
};

}  // namespace

SamplePlace place_of(int64_t run_position, int64_t samples, uint64_t seed, bool shuffled) {
  const int64_t epoch = run_position / samples;
  const int64_t position = run_position % samples;
  if (!shuffled) {
    return {epoch, position, position};
  }
  const Permutation order(static_cast<uint64_t>(samples), seed, static_cast<uint64_t>(epoch));
  return {epoch, position, static_cast<int64_t>(order(static_cast<uint64_t>(position)))};
}

Result<std::unique_ptr<BatchSource>> make_loader(std::unique_ptr<SampleRows> rows, LoaderOptions options) {
  XRUN_CHECK(options.batch > 0, "a batch without rows");
  return std::unique_ptr<BatchSource>(std::make_unique<Loader>(std::move(rows), std::move(options)));
}

Result<std::unique_ptr<RowSource>> make_row_source(std::unique_ptr<SampleRows> rows, LoaderOptions options) {
  return std::unique_ptr<RowSource>(std::make_unique<Rows>(std::move(rows), std::move(options)));
}

}  // namespace xrun::runtime
