// The part of BackgroundSave that is called before instructions change values: files with these values are read first.
// Tests: tests/runtime/checkpoint/store_test.cpp
#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>

#include "runtime/checkpoint/background/background_save.h"

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::vector<size_t> BackgroundSave::files_changed_by(const planner::Instruction& instruction) const {
  std::vector<size_t> files;
  for (const planner::BufferId buffer : instruction.writes) {
    const auto at = static_cast<size_t>(buffer.index);
    if (at < files_of_.size()) {
      files.insert(files.end(), files_of_[at].begin(), files_of_[at].end());
    }
  }
  std::ranges::sort(files);
  const auto again = std::ranges::unique(files);
  files.erase(again.begin(), again.end());
  return files;
}

void BackgroundSave::before(const planner::Instruction& instruction, ops::Workers& workers) {
  const std::vector<size_t> wanted = unread_ == 0 ? std::vector<size_t>() : files_changed_by(instruction);
  if (!wanted.empty()) {
    const auto start = Clock::now();
    read_now(wanted, workers);
    note_wait(instruction.device, std::chrono::duration<double>(Clock::now() - start).count());
  }
}

void BackgroundSave::before_rows(const planner::Instruction& instruction, std::span<const int32_t> rows,
                                 ops::Workers& workers) {
  const std::vector<size_t> wanted = unread_ == 0 ? std::vector<size_t>() : files_changed_by(instruction);
  if (!wanted.empty()) {
    const auto start = Clock::now();
    keep_rows(wanted, rows, workers);
    note_wait(instruction.device, std::chrono::duration<double>(Clock::now() - start).count());
  }
}

// Copies the rows before a step changes them. If there is no memory for the copies of a file's rows, the file is
// written at once, which frees the memory of its earlier copies for other files. So before each such file is written,
// copying its rows is tried again.
void BackgroundSave::keep_rows(const std::vector<size_t>& wanted, std::span<const int32_t> rows,
                               ops::Workers& workers) {
  std::mutex found;
  std::vector<size_t> without_memory;
  workers.for_each(std::ssize(wanted), [&](int64_t item, int /*worker*/) {
    const size_t index = wanted[static_cast<size_t>(item)];
    if (files_[index].rows == nullptr || !files_[index].rows->keep(rows)) {
      const std::lock_guard lock(found);
      without_memory.push_back(index);
    }
  });
  if (memory_.is_scarce()) {
    hurry();  // otherwise the background might free memory too slowly on a busy machine
  }
  if (without_memory.empty()) {
    return;
  }
  std::ranges::sort(without_memory);
  std::vector<size_t> written;
  workers.for_each(std::ssize(without_memory), [&](int64_t item, int /*worker*/) {
    const size_t index = without_memory[static_cast<size_t>(item)];
    if (files_[index].rows == nullptr || !files_[index].rows->keep(rows)) {
      read(files_[index]);
      const std::lock_guard lock(found);
      written.push_back(index);
    }
  });
  wait_until_read(written);
}

void BackgroundSave::hurry() {
  if (!hurries_.exchange(true)) {
    work_->hurry();
  }
}

void BackgroundSave::note_wait(int device, Seconds waited) {
  const std::lock_guard lock(mutex_);
  waited_[device] += waited;
}

void BackgroundSave::read_rest() {
  std::vector<size_t> all(files_.size());
  std::iota(all.begin(), all.end(), 0);
  ops::InlineWorkers workers;
  read_now(all, workers);
}

// Reads the wanted files before a step changes them. The workers copy together, and wait only for files that another
// thread is writing. If that thread is the background, it gets normal priority, so that it finishes soon.
void BackgroundSave::read_now(const std::vector<size_t>& wanted, ops::Workers& workers) {
  workers.for_each(workers.count(), [&](int64_t /*item*/, int /*worker*/) {
    for (const size_t index : wanted) {
      read(files_[index]);
    }
  });
  wait_until_read(wanted);
}

void BackgroundSave::wait_until_read(const std::vector<size_t>& wanted) {
  const auto is_read = [&](size_t index) { return files_[index].stage == Stage::kIsRead; };
  std::unique_lock lock(mutex_);
  if (std::ranges::any_of(wanted, is_read)) {
    hurry();
    changed_.wait(lock, [&] { return std::ranges::none_of(wanted, is_read); });
  }
}

}  // namespace xrun::runtime
