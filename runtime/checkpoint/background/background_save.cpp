// A file goes through the stages of `Stage`: it waits, is read by one or several threads, may be copied, and is
// written. The background takes the files in order. Before an instruction changes values, its workers look for the
// files with these values that have not been read (files_changed_by), and read them first: they copy a file together if
// there is memory for it, and otherwise write it. Files of heads with active classes have a RowCopies instead, which
// copies only the rows that change. So a step waits for a copy in memory, and only if memory is short for the disk.
// changes_during_save.cpp has the part that instructions call.
// Tests: tests/runtime/checkpoint/store_test.cpp
#include "runtime/checkpoint/background/background_save.h"

#include <algorithm>
#include <new>
#include <utility>

namespace xrun::runtime {
namespace {

// The largest number of files that are written but not yet durable. Each of these files keeps a file descriptor open,
// and the number of descriptors of a process is limited.
constexpr int64_t kMostOpen = 128;

}  // namespace

BackgroundSave::BackgroundSave(const TrainState& state, Bytes range_bytes, int rank, std::string directory, Io& io,
                               SaveMemory& memory)
    : state_(state), directory_(std::move(directory)), io_(io), memory_(memory) {
  memory_.reset();
  for (StateFile& plan : plan_files(state, range_bytes, rank)) {
    files_.push_back({.plan = std::move(plan)});
    hold_computed(files_.back());
    cut(files_.back());
    note_buffers(files_.size() - 1);
  }
  for (File& file : files_) {  // the files are not moved in memory after this, so RowCopies may refer to them
    if (file.plan.by_rows && state.changes_by_rows(file.plan.tensors[0]->head)) {
      file.rows = std::make_unique<RowCopies>(state, file.plan, memory);
      if (!file.rows->fits()) {
        file.rows.reset();  // the file is copied as a whole
      }
    }
  }
  unread_ = std::ssize(files_);
  work_.emplace(1, [this](ops::Workers& /*workers*/) { run(); });
}

BackgroundSave::~BackgroundSave() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
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

// Divides a file into small parts, so that several threads can copy it and no thread waits long for a part of another.
void BackgroundSave::cut(File& file) {
  constexpr Bytes kPart = kMiB;
  for (const StateTensor* tensor : file.plan.tensors) {
    const int64_t end = file.plan.by_rows ? file.plan.row_end : tensor->rows();
    const Bytes row_bytes = tensor->row_bytes();
    const int64_t most = std::max<int64_t>(1, kPart / std::max<Bytes>(row_bytes, 1));
    const bool is_held = tensor->role == StateTensor::Role::kShift;
    for (int64_t row = file.plan.row_begin; row < end && row_bytes > 0 && !is_held; row += most) {
      const int64_t last = std::min(end, row + most);
      file.parts.push_back({tensor, row, last, file.bytes});
      file.bytes += (last - row) * row_bytes;
    }
  }
}

void BackgroundSave::note_buffers(size_t index) {
  const StateFile& plan = files_[index].plan;
  for (const StateTensor* tensor : plan.tensors) {
    for (const TensorPiece& piece : tensor->pieces) {
      if (plan.by_rows && (piece.row_end <= plan.row_begin || plan.row_end <= piece.row_begin)) {
        continue;
      }
      const auto buffer = static_cast<size_t>(piece.copies[0].index);  // the copy of the tensor that read_rows reads
      files_of_.resize(std::max(files_of_.size(), buffer + 1));
      if (files_of_[buffer].empty() || files_of_[buffer].back() != index) {
        files_of_[buffer].push_back(index);
      }
    }
  }
}

void BackgroundSave::run() {
  for (File& file : files_) {
    read(file);
  }
  for (File& file : files_) {
    if (is_copied(file)) {
      write(file);
    }
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

void BackgroundSave::read(File& file) {
  if (claim(file) && file.copy == nullptr) {
    write(file);
  }
  help_to_copy(file);
}

bool BackgroundSave::claim(File& file) {
  const std::lock_guard lock(mutex_);
  if (error_ || given_up_ || file.stage != Stage::kWaits) {
    return false;
  }
  file.stage = Stage::kIsRead;
  file.copy = file.parts.empty() || file.rows != nullptr ? nullptr : memory_.take(file.bytes);
  return true;
}

void BackgroundSave::help_to_copy(File& file) {
  std::unique_lock lock(mutex_);
  while (file.copy != nullptr && file.next_part < file.parts.size()) {
    const Part& part = file.parts[file.next_part++];
    lock.unlock();
    state_.read_rows(*part.tensor, part.row_begin, part.row_end, file.copy + part.at);
    lock.lock();
    if (++file.copied_parts == file.parts.size()) {
      file.stage = Stage::kCopied;
      --unread_;
      changed_.notify_all();
    }
  }
}

bool BackgroundSave::is_copied(File& file) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return file.stage != Stage::kIsRead || given_up_; });
  return file.stage == Stage::kCopied && !error_ && !given_up_;
}

void BackgroundSave::write(File& file) {
  Status status = write_claimed(file);
  if (!status.ok()) {
    fail(std::move(status).error());
  }
  if (file.rows != nullptr) {
    run_at_normal_priority([&] { file.rows->end(); }, hurries_);
  }
  {
    const std::lock_guard lock(mutex_);
    unread_ -= file.stage == Stage::kIsRead ? 1 : 0;
    file.stage = Stage::kWritten;
  }
  changed_.notify_all();
}

// Writes a file that this thread has claimed. Catches all exceptions, since a task of a device must not throw.
Status BackgroundSave::write_claimed(File& file) {
  const ReadRows read = [&](const StateTensor& tensor, int64_t row_begin, int64_t row_end, std::byte* out) {
    const Bytes first = (row_begin - file.plan.row_begin) * tensor.row_bytes();
    const Bytes bytes = (row_end - row_begin) * tensor.row_bytes();
    const auto held = std::ranges::find(file.held, &tensor, [](const auto& one) { return one.first; });
    if (held != file.held.end()) {
      std::copy_n(held->second.begin() + first, bytes, out);
    } else if (file.copy != nullptr) {
      const auto part = std::ranges::find(file.parts, &tensor, &Part::tensor);  // the tensor's first part
      std::copy_n(file.copy + part->at + first, bytes, out);
    } else if (file.rows != nullptr) {
      run_at_normal_priority([&] { file.rows->read(tensor, row_begin, row_end, out); }, hurries_);
    } else {
      state_.read_rows(tensor, row_begin, row_end, out);
    }
  };
  std::vector<std::byte> chunk = memory_.take_chunk();
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
  memory_.give_back(std::move(chunk));
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

// Ends the save with an error. Only the first error is kept. Files whose writing has not begun are not read any more.
void BackgroundSave::fail(Error error) {
  const std::lock_guard lock(mutex_);
  if (error_) {
    return;
  }
  error_ = std::move(error);
  for (File& file : files_) {
    unread_ -= file.stage == Stage::kWaits ? 1 : 0;
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
  XRUN_TRY(state_.status());
  std::vector<ManifestFile> saved;
  for (const File& file : files_) {
    saved.push_back(file.saved);
  }
  return saved;
}

}  // namespace xrun::runtime
