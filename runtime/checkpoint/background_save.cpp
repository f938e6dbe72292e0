#include "runtime/checkpoint/background_save.h"

#include <algorithm>
#include <chrono>
#include <new>

namespace xrun::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// Files that are written and not yet durable keep their descriptors, for whose number processes have a limit.
constexpr int64_t kMostOpen = 128;

}  // namespace

SaveChunks::SaveChunks(int count) : free_(static_cast<size_t>(std::max(count, 1))) {}

std::vector<std::byte> SaveChunks::take() {
  std::unique_lock lock(mutex_);
  given_back_.wait(lock, [&] { return !free_.empty(); });
  std::vector<std::byte> chunk = std::move(free_.back());
  free_.pop_back();
  return chunk;
}

void SaveChunks::give_back(std::vector<std::byte> chunk) {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(chunk));
  }
  given_back_.notify_one();
}

BackgroundSave::BackgroundSave(const TrainState& state, Bytes range_bytes, int rank, std::string directory, Io& io,
                               SaveChunks& chunks)
    : state_(state), directory_(std::move(directory)), io_(io), chunks_(chunks) {
  for (StateFile& plan : plan_files(state, range_bytes, rank)) {
    files_.push_back({.plan = std::move(plan)});
    hold_computed(files_.back());
    note_buffers(files_.size() - 1);
  }
  unwritten_ = std::ssize(files_);
  work_.emplace(1, [this](ops::Workers& /*workers*/) { run(); });
}

BackgroundSave::~BackgroundSave() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  written_.notify_all();
}

void BackgroundSave::hold_computed(File& file) const {
  for (const StateTensor* tensor : file.plan.tensors) {
    if (tensor->role == StateTensor::Role::kShift) {
      const int64_t rows = file.plan.row_end - file.plan.row_begin;
      std::vector<std::byte> values(static_cast<size_t>(rows * tensor->row_bytes()));
      state_.read_rows(*tensor, file.plan.row_begin, file.plan.row_end, values.data());
      file.held.emplace_back(tensor, std::move(values));
    }
  }
}

void BackgroundSave::note_buffers(size_t index) {
  const StateFile& plan = files_[index].plan;
  for (const StateTensor* tensor : plan.tensors) {
    for (const TensorPiece& piece : tensor->pieces) {
      if (plan.head && (piece.row_end <= plan.row_begin || plan.row_end <= piece.row_begin)) {
        continue;
      }
      const auto buffer = static_cast<size_t>(piece.copies[0].index);  // the copy that read_rows reads
      files_of_.resize(std::max(files_of_.size(), buffer + 1));
      if (files_of_[buffer].empty() || files_of_[buffer].back() != index) {
        files_of_[buffer].push_back(index);
      }
    }
  }
}

void BackgroundSave::before(const planner::Instruction& instruction, ops::Workers& workers) {
  if (unwritten_ == 0) {
    return;
  }
  std::vector<size_t> wanted;
  for (const planner::BufferId buffer : instruction.writes) {
    const auto at = static_cast<size_t>(buffer.index);
    if (at < files_of_.size()) {
      wanted.insert(wanted.end(), files_of_[at].begin(), files_of_[at].end());
    }
  }
  std::ranges::sort(wanted);
  const auto again = std::ranges::unique(wanted);
  wanted.erase(again.begin(), again.end());
  if (!wanted.empty()) {
    const auto start = Clock::now();
    write_now(wanted, workers);
    const std::lock_guard lock(mutex_);
    waited_[instruction.device] += std::chrono::duration<double>(Clock::now() - start).count();
  }
}

void BackgroundSave::write_rest() {
  std::vector<size_t> all(files_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  ops::InlineWorkers workers;
  write_now(all, workers);
}

// The workers wait only for files that another thread is writing just now; the background has normal priority from then
// on, so that such a file is done soon.
void BackgroundSave::write_now(const std::vector<size_t>& wanted, ops::Workers& workers) {
  work_->hurry();
  workers.for_each(std::ssize(wanted), [&](int64_t item, int /*worker*/) {
    if (claim(wanted[static_cast<size_t>(item)])) {
      write(wanted[static_cast<size_t>(item)]);
    }
  });
  std::unique_lock lock(mutex_);
  written_.wait(lock, [&] {
    return std::ranges::none_of(wanted, [&](size_t index) { return files_[index].stage == Stage::kIsWritten; });
  });
}

void BackgroundSave::run() {
  for (size_t i = 0; i < files_.size(); ++i) {
    if (claim(i)) {
      write(i);
    }
  }
  {
    std::unique_lock lock(mutex_);
    written_.wait(lock, [&] { return unwritten_ == 0 || given_up_; });
  }
  for (File& file : files_) {
    if (const std::lock_guard lock(mutex_); error_ || given_up_) {
      break;
    }
    if (Status durable = make_durable(file); !durable.ok()) {
      fail(std::move(durable).error());
    }
  }
  done_ = true;
}

bool BackgroundSave::claim(size_t index) {
  const std::lock_guard lock(mutex_);
  if (error_ || given_up_ || files_[index].stage != Stage::kWaits) {
    return false;
  }
  files_[index].stage = Stage::kIsWritten;
  return true;
}

void BackgroundSave::write(size_t index) {
  Status status = write_claimed(files_[index]);
  if (!status.ok()) {
    fail(std::move(status).error());
  }
  {
    const std::lock_guard lock(mutex_);
    files_[index].stage = Stage::kWritten;
    --unwritten_;
  }
  written_.notify_all();
}

// An exception must not leave a task of a device.
Status BackgroundSave::write_claimed(File& file) {
  const ReadRows read = [&](const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) {
    const auto held = std::ranges::find(file.held, &tensor, [](const auto& one) { return one.first; });
    if (held == file.held.end()) {
      state_.read_rows(tensor, row_begin, row_end, out);
      return;
    }
    const Bytes first = (row_begin - file.plan.row_begin) * tensor.row_bytes();
    std::copy_n(held->second.begin() + first, (row_end - row_begin) * tensor.row_bytes(), out);
  };
  std::vector<std::byte> chunk = chunks_.take();
  Status status;
  try {
    auto writer = write_file(file.plan, read, directory_, io_, chunk);
    if (writer.ok()) {
      file.saved = {file.plan.name, writer->bytes(), writer->digest()};
      file.writer.emplace(std::move(writer).value());
      status = ++open_ > kMostOpen ? make_durable(file) : Status();
    } else {
      status = std::move(writer).error();
    }
  } catch (const std::bad_alloc&) {
    status = Error{ErrorKind::kWorld, "", "out of memory while a checkpoint was written", "close other programs"};
  }
  chunks_.give_back(std::move(chunk));
  return status;
}

Status BackgroundSave::make_durable(File& file) {
  if (!file.writer) {
    return {};
  }
  Status status = file.writer->finish();
  file.writer.reset();
  --open_;
  return status;
}

// The first error is the one to tell. Nobody has to read what is not begun then.
void BackgroundSave::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (error_) {
    return;
  }
  error_ = std::move(error);
  for (File& file : files_) {
    unwritten_ -= file.stage == Stage::kWaits ? 1 : 0;
  }
}

Seconds BackgroundSave::waited() const {
  const std::lock_guard lock(mutex_);
  Seconds longest = 0;
  for (const auto& [device, waited] : waited_) {
    longest = std::max(longest, waited);
  }
  return longest;
}

void BackgroundSave::wait() { work_->wait(); }

Result<std::vector<ManifestFile>> BackgroundSave::files() const {
  if (error_) {
    return *error_;
  }
  std::vector<ManifestFile> saved;
  for (const File& file : files_) {
    saved.push_back(file.saved);
  }
  return saved;
}

}  // namespace xrun::runtime
