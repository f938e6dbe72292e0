// A run over a rows file that acts like a trainer. The change of a row is a function of the step, so the rows of any
// step are known. Its checkpoint is a file `manifest`, which is renamed into place.
#pragma once

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "graph/base/check.h"
#include "graph/base/errors.h"
#include "graph/base/random.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/class_rows/class_row_file.h"
#include "runtime/checkpoint/class_rows/file_mapping.h"

namespace xrun::testing {

using runtime::ClassRowFile;
using runtime::ClassRowFileOptions;
using runtime::RowsVersion;

inline RowsLayout small_rows(int64_t rows = 3000) {
  return {.tensor = "id.weight",
          .row_begin = 500,
          .rows = rows,
          .sections = {{"weight", "f8e4m3", 24}, {"scale", "f32", 4}, {"last_touch", "i32", 4}}};
}

// Returns the rows that a step changes, in ascending order. What the step writes into each row is a function of the
// step.
inline std::vector<int32_t> rows_of_step(const RowsLayout& layout, int64_t step, int64_t most) {
  const RandomStream random(7, static_cast<uint64_t>(step));
  std::vector<int32_t> rows(1 + random.below(0, static_cast<uint64_t>(most)));
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = static_cast<int32_t>(random.below(i + 1, static_cast<uint64_t>(layout.rows)));
  }
  std::ranges::sort(rows);
  rows.erase(std::ranges::unique(rows).begin(), rows.end());
  return rows;
}

using Sections = std::vector<std::vector<std::byte>>;

inline void change_row(const RowsLayout& layout, int64_t step, int32_t row, const std::vector<std::byte*>& sections) {
  for (size_t i = 0; i < layout.sections.size(); ++i) {
    const auto width = static_cast<size_t>(layout.sections[i].row_bytes);
    std::byte* const to = sections[i] + static_cast<size_t>(row) * width;
    for (size_t byte = 0; byte < width; ++byte) {
      to[byte] = static_cast<std::byte>(step * 31 + row * 7 + static_cast<int64_t>(byte + i));
    }
  }
}

// A model of the rows in memory, updated step by step.
class RowsModel {
 public:
  explicit RowsModel(RowsLayout layout, int64_t most = 60) : layout_(std::move(layout)), most_(most) {
    for (const RowsSection& section : layout_.sections) {
      sections_.emplace_back(static_cast<size_t>(layout_.rows * section.row_bytes));
    }
  }
  const Sections& at(int64_t step) {
    XRUN_CHECK(step >= step_, "steps only go on");
    std::vector<std::byte*> sections;
    for (auto& section : sections_) {
      sections.push_back(section.data());
    }
    while (step_ < step) {
      ++step_;
      for (const int32_t row : rows_of_step(layout_, step_, most_)) {
        change_row(layout_, step_, row, sections);
      }
    }
    return sections_;
  }

 private:
  RowsLayout layout_;
  int64_t most_;
  int64_t step_ = 0;
  Sections sections_;
};

class RowsRun {
 public:
  RowsRun(std::string directory, RowsLayout layout, ClassRowFileOptions options = {}, int64_t most = 60)
      : directory_(std::move(directory)), layout_(std::move(layout)), options_(std::move(options)), most_(most) {
    for (const RowsSection& section : layout_.sections) {
      arena_bytes_ += static_cast<size_t>(align_up(layout_.rows * section.row_bytes, runtime::page_bytes()));
    }
    arena_ = ::mmap(nullptr, arena_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    XRUN_CHECK(arena_ != MAP_FAILED, "no memory");
  }
  RowsRun(RowsRun&&) = delete;
  ~RowsRun() {
    file_.reset();
    ::munmap(arena_, arena_bytes_);
  }

  // Returns the step and the rows of the checkpoint, or nullopt if there is no checkpoint.
  static std::optional<std::pair<int64_t, RowsVersion>> checkpoint_in(const std::string& directory) {
    std::ifstream in(directory + "/manifest");
    std::pair<int64_t, RowsVersion> read;
    return in >> read.first >> read.second.rows >> read.second.log ? std::optional(read) : std::nullopt;
  }

  // Resumes from the checkpoint, or starts a new run if there is no checkpoint.
  Status begin() {
    const auto checkpoint = checkpoint_in(directory_);
    auto opened = checkpoint ? ClassRowFile::restore(path(), layout_, checkpoint->second, options_)
                             : ClassRowFile::create(path(), layout_, options_);
    if (!opened.ok()) {
      return opened.error();
    }
    file_.emplace(std::move(opened).value());
    step_ = checkpoint ? checkpoint->first : 0;
    auto* at = static_cast<std::byte*>(arena_);
    for (size_t i = 0; i < layout_.sections.size(); ++i) {
      XRUN_TRY(file_->map(i, 0, layout_.rows, at));
      sections_.push_back(at);
      at += align_up(layout_.rows * layout_.sections[i].row_bytes, runtime::page_bytes());
    }
    return {};
  }

  Status step() {
    const std::vector<int32_t> rows = rows_of_step(layout_, step_ + 1, most_);
    file_->read_ahead(rows);
    XRUN_TRY(file_->log_old(rows));
    ++step_;
    for (const int32_t row : rows) {
      change_row(layout_, step_, row, sections_);
    }
    return {};
  }

  Status save() {
    XRUN_ASSIGN(const RowsVersion version, file_->prepare_checkpoint(step_));
    std::ostringstream text;
    text << step_ << " " << version.rows << " " << version.log << "\n";
    Io& io = *options_.io;
    const std::string fresh = directory_ + "/manifest.tmp";
    int fault = write_durably(fresh, std::as_bytes(std::span(std::string_view(text.view()))), io);
    fault = fault == 0 ? io.rename(fresh, directory_ + "/manifest") : fault;
    fault = fault == 0 ? sync_directory(directory_, io) : fault;
    if (fault != 0) {
      XRUN_TRY(file_->give_up_checkpoint());
      return world_error("XG0711", std::strerror(fault), "");
    }
    file_->switch_checkpoint();
    return {};
  }

  std::string path() const { return directory_ + "/rows.id"; }
  int64_t at() const { return step_; }
  ClassRowFile& file() { return *file_; }

  Sections contents() const {
    Sections copy;
    for (size_t i = 0; i < sections_.size(); ++i) {
      copy.emplace_back(sections_[i], sections_[i] + layout_.rows * layout_.sections[i].row_bytes);
    }
    return copy;
  }

 private:
  std::string directory_;
  RowsLayout layout_;
  ClassRowFileOptions options_;
  int64_t most_;
  size_t arena_bytes_ = 0;
  void* arena_ = nullptr;
  std::optional<ClassRowFile> file_;
  std::vector<std::byte*> sections_;
  int64_t step_ = 0;
};

// Leaves out syncs. A killed process loses nothing that was not synced, so tests of kills need not wait for the disk.
class UnsyncedIo : public Io {
 public:
  int sync(int /*file*/) override { return 0; }
};

// A system whose calls do nothing from a given call on, as if the process was killed there or the disk was full. On a
// full disk, the first write that needs space writes half of its bytes.
class FailingIo final : public UnsyncedIo {
 public:
  enum class Fault { kKilled, kFull };

  FailingIo(Fault fault, int64_t call) : fault_(fault), left_(call) {}
  bool has_failed() const { return left_ <= 0; }
  void kill_now() {
    fault_ = Fault::kKilled;
    left_ = 0;
  }

  int open(const std::string& path, int flags) override {
    const int fault = fault_of((flags & O_CREAT) != 0);
    return fault != 0 ? -fault : Io::open(path, flags);
  }
  int write(int file, std::span<const std::byte> bytes) override {
    const bool first = !has_failed();
    const int fault = fault_of(true);
    if (fault != 0 && first && fault_ == Fault::kFull) {
      Io::write(file, bytes.first(bytes.size() / 2));
    }
    return fault != 0 ? fault : Io::write(file, bytes);
  }
  int truncate(int file) override {
    return call(false, [&] { return Io::truncate(file); });
  }
  int reserve(int file, int64_t bytes) override {
    return call(true, [&] { return Io::reserve(file, bytes); });
  }
  int sync(int file) override {
    return call(false, [&] { return UnsyncedIo::sync(file); });
  }
  int rename(const std::string& from, const std::string& to) override {
    return call(false, [&] { return Io::rename(from, to); });
  }
  int unlink_in(int directory, const std::string& name) override {
    return call(false, [&] { return Io::unlink_in(directory, name); });
  }

 private:
  template <typename Call>
  int call(bool needs_room, const Call& call) {
    const int fault = fault_of(needs_room);
    return fault != 0 ? fault : call();
  }
  int fault_of(bool needs_room) {
    if (fault_ == Fault::kFull && !needs_room) {
      return 0;
    }
    left_ = std::max<int64_t>(0, left_ - 1);
    return left_ > 0 ? 0 : fault_ == Fault::kFull ? ENOSPC : EIO;
  }

  Fault fault_;
  int64_t left_;
};

}  // namespace xrun::testing
