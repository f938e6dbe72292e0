// For each row a bit records whether the row is in the log, so that a row is logged only before its first change after
// a checkpoint. class_row_restore.cpp restores the rows.
#include "runtime/checkpoint/class_rows/class_row_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/check.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/class_rows/class_row_errors.h"
#include "runtime/checkpoint/class_rows/file_mapping.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/own_files.h"

namespace xrun::runtime {

namespace fs = std::filesystem;

ClassRowFile::ClassRowFile(std::string path, ClassRowFileOptions options)
    : path_(std::move(path)), options_(std::move(options)) {}

ClassRowFile::ClassRowFile(ClassRowFile&& other) noexcept
    : path_(std::move(other.path_)),
      options_(std::move(other.options_)),
      file_(std::exchange(other.file_, -1)),
      has_locks_(other.has_locks_),
      header_(std::move(other.header_)),
      ranges_(std::move(other.ranges_)),
      mutex_(std::move(other.mutex_)),
      log_(std::exchange(other.log_, std::nullopt)),
      next_(std::exchange(other.next_, std::nullopt)),
      logged_(std::move(other.logged_)),
      fresh_(std::move(other.fresh_)),
      record_(std::move(other.record_)) {}

ClassRowFile::~ClassRowFile() {
  static_cast<void>(close());  // if it fails, the log is not closed, and restoring after a power cut is rejected
}

Result<ClassRowFile> ClassRowFile::create(const std::string& path, const RowsLayout& layout,
                                          ClassRowFileOptions options) {
  XRUN_CHECK(is_valid(layout), "rows that no file can have");
  Io& io = *options.io;
  {
    ClassRowFile old(path, options);
    const Status opened = old.open(path, O_RDWR);
    if (opened.ok()) {
      std::byte start[16] = {};
      const ssize_t got = ::pread(old.file_, start, sizeof start, 0);
      if (got != 0 && !is_class_row_file(start)) {  // an empty file may be replaced: a killed process may have left it
        return foreign_rows_file(path);
      }
      if (const int fault = io.unlink(path); fault != 0) {
        return checkpoint_write_error(path, fault);
      }
    } else if (opened.error().code != "XG0710") {
      return opened.error();
    }
  }
  ClassRowFile made(path, std::move(options));
  made.header_ = {draw_id(), layout};
  // The file gets its final name after its header is durable. Otherwise a power cut could leave a file without a
  // header, which is indistinguishable from a file of another program.
  const std::string fresh = path + pending_tail();
  XRUN_TRY(made.open(fresh, O_RDWR | O_CREAT | O_EXCL));
  const std::string header = print_class_row_header(made.header_);
  int fault = io.write(made.file_, std::as_bytes(std::span(header)));
  fault = fault == 0 ? io.sync(made.file_) : fault;
  fault = fault == 0 ? io.rename(fresh, path) : fault;
  const Status reserved = fault == 0 ? made.reserve() : Status(checkpoint_write_error(path, fault));
  if (!reserved.ok()) {
    io.unlink(fault == 0 ? path : fresh);
    return reserved.error();
  }
  made.remove_leftovers("");
  made.make_room();
  return made;
}

Result<ClassRowHeader> ClassRowFile::header_of(const std::string& path) {
  ClassRowFile file(path, {});
  XRUN_TRY(file.open(path, O_RDONLY, Lock::kNone));
  return file.parse_header();
}

// Opens `path`, which may be a temporary name of the file; error messages contain its final path.
Status ClassRowFile::open(const std::string& path, int flags, Lock lock) {
  Io& io = *options_.io;
  file_ = io.open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  struct stat info {};
  if (file_ == -ENOENT && (flags & O_CREAT) == 0) {
    return bad_rows_file(path_, "is missing");
  }
  if (file_ == -ELOOP || file_ == -EISDIR || file_ == -ENXIO) {
    return foreign_rows_file(path_);
  }
  if (file_ < 0 && lock == Lock::kNone) {
    return unreadable_rows_file(path_, std::strerror(-file_));
  }
  if (file_ < 0 || ::fstat(file_, &info) != 0) {
    return checkpoint_write_error(path_, file_ < 0 ? -file_ : errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return foreign_rows_file(path_);
  }
  if (lock == Lock::kNone) {
    return {};
  }
  const int fault = io.lock(file_);
  has_locks_ = fault == 0;
  return fault == EWOULDBLOCK ? rows_file_in_use(path_, "another process") : Status();
}

Result<ClassRowHeader> ClassRowFile::parse_header() const {
  std::vector<std::byte> start(static_cast<size_t>(kClassRowHeaderBytes));
  const ssize_t got = ::pread(file_, start.data(), start.size(), 0);
  if (got < 0) {
    return unreadable_rows_file(path_, std::strerror(errno));
  }
  return parse_class_row_header(std::span(start).first(static_cast<size_t>(got)), path_);
}

Status ClassRowFile::reserve() {
  const Bytes bytes = header_.layout.file_bytes();
  const int fault = options_.io->reserve(file_, bytes);
  if (fault == 0) {
    return {};
  }
  Error error = checkpoint_write_error(path_, fault);
  error.message += fmt::format(" (the rows need {})", format_bytes(bytes));
  return error;
}

// Allocates all memory for logging, so that steps allocate nothing.
void ClassRowFile::make_room() {
  const RowsLayout& layout = header_.layout;
  const int64_t most = layout.rows_of_record();
  logged_.assign(static_cast<size_t>((layout.rows + 63) / 64), 0);
  fresh_.resize(static_cast<size_t>(most));
  record_.resize(static_cast<size_t>(layout.record_bytes(most)));
}

Status ClassRowFile::map(size_t section, int64_t row_begin, int64_t row_end, std::byte* to) {
  const RowsLayout& layout = header_.layout;
  const Bytes width = layout.sections[section].row_bytes;
  XRUN_CHECK(row_begin >= 0 && row_begin < row_end && row_end <= layout.rows, "rows that the file has not");
  XRUN_CHECK(reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(page_bytes()) == 0 &&
                 row_begin * width % page_bytes() == 0 &&
                 (row_end == layout.rows || row_end * width % page_bytes() == 0),
             "rows that are not whole pages");
  const auto bytes = static_cast<size_t>(align_up((row_end - row_begin) * width, page_bytes()));
  // Calls no madvise for the mapping: steps request their rows by read_ahead, and code that reads all rows in order,
  // such as an evaluation, benefits from the normal read-ahead of the system.
  void* const at = ::mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file_,
                          layout.offset(section) + row_begin * width);
  if (at == MAP_FAILED) {
    return unmapped_rows_file(path_, errno);
  }
  auto range = std::ranges::find_if(ranges_, [&](const Range& one) {
    return one.begin == row_begin && one.end == row_end && one.sections[section] == nullptr;
  });
  if (range == ranges_.end()) {
    ranges_.push_back({row_begin, row_end, std::vector<const std::byte*>(layout.sections.size())});
    range = ranges_.end() - 1;
  }
  range->sections[section] = to - row_begin * width;
  return {};
}

// The first range that contains the rows and has all sections.
const ClassRowFile::Range& ClassRowFile::range_of(std::span<const int32_t> rows) const {
  const auto range = std::ranges::find_if(ranges_, [&](const Range& one) {
    return one.begin <= rows.front() && rows.back() < one.end &&
           std::ranges::find(one.sections, nullptr) == one.sections.end();
  });
  XRUN_CHECK(range != ranges_.end(), "rows that were not mapped together with all their sections");
  return *range;
}

Status ClassRowFile::read(size_t section, Bytes offset, std::span<std::byte> out) const {
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = ::pread(file_, out.data() + done, out.size() - done,
                                header_.layout.offset(section) + offset + static_cast<Bytes>(done));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got <= 0) {
      return unreadable_rows_file(path_, got < 0 ? std::strerror(errno) : "it ends");
    }
    done += static_cast<size_t>(got);
  }
  return {};
}

Status ClassRowFile::log_old(std::span<const int32_t> rows) {
  XRUN_CHECK(!next_, "rows change before the checkpoint is switched or given up");
  if (!log_ || rows.empty()) {
    return {};
  }
  const std::lock_guard lock(*mutex_);
  const Range& range = range_of(rows);
  size_t count = 0;
  const auto append = [&] {
    const Status done =
        log_->append(header_.layout, std::span(fresh_).first(std::exchange(count, 0)), range.sections, record_);
    return done;
  };
  for (const int32_t row : rows) {
    uint64_t& bits = logged_[static_cast<size_t>(row) / 64];
    const uint64_t bit = uint64_t{1} << (row % 64);
    if ((bits & bit) != 0) {
      continue;
    }
    bits |= bit;
    fresh_[count++] = row;
    if (count == fresh_.size()) {
      XRUN_TRY(append());
    }
  }
  if (count > 0) {
    XRUN_TRY(append());
  }
  return log_->before_change();
}

void ClassRowFile::read_ahead(std::span<const int32_t> rows) const {
  if (rows.empty()) {
    return;
  }
  const Range& range = range_of(rows);
  for (size_t i = 0; i < range.sections.size(); ++i) {
    ask_for_rows(range.sections[i], header_.layout.sections[i].row_bytes, rows);
  }
}

Result<RowsVersion> ClassRowFile::prepare_checkpoint(int64_t step) {
  XRUN_CHECK(!next_, "a checkpoint is prepared already");
  if (const int fault = options_.io->sync(file_); fault != 0) {
    return checkpoint_write_error(path_, fault);
  }
  const UndoHeader header{header_.id, draw_id(), step, options_.owner, options_.durable};
  XRUN_ASSIGN(next_, UndoLog::create(log_path(header.log), header, *options_.io));
  return RowsVersion{header.rows, header.log};
}

void ClassRowFile::switch_checkpoint() {
  XRUN_CHECK(next_.has_value(), "no checkpoint is prepared");
  if (log_) {
    options_.io->unlink(log_->path());  // errors are ignored, since `restore` removes logs that are left over
  }
  log_ = std::exchange(next_, std::nullopt);
  std::ranges::fill(logged_, 0);
}

Status ClassRowFile::give_up_checkpoint() {
  if (!next_) {
    return {};
  }
  int fault = options_.io->unlink(next_->path());
  fault = fault == 0 ? sync_directory(parent_of(path_), *options_.io) : fault;
  if (fault != 0) {
    return checkpoint_write_error(path_, fault);
  }
  next_.reset();
  return {};
}

Status ClassRowFile::close() {
  Status done = log_ && log_->bytes() > kUndoHeaderBytes ? log_->close() : Status();
  log_.reset();
  next_.reset();
  if (file_ >= 0) {
    options_.io->close(std::exchange(file_, -1));
  }
  return done;
}

// Removes all logs except `but`, since their checkpoints can no longer be restored, and files that an interrupted
// `create` has left. REQUIRES: the file is locked.
void ClassRowFile::remove_leftovers(const std::string& but) const {
  const std::string own = fs::path(path_).filename().string();
  const std::string begin = own + ".undo-";
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(parent_of(path_), error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  for (const std::string& name : names) {
    if (name.starts_with(own + ".tmp-")) {
      remove_own_file(parent_of(path_) + "/" + name, *options_.io);
    }
    const std::string log = name.starts_with(begin) ? name.substr(begin.size(), 32) : "";
    const std::string rest = log.empty() ? "" : name.substr(begin.size() + log.size());
    if (is_digest(log) && name != begin + but && (rest.empty() || rest.starts_with(".tmp-"))) {
      remove_own_file(parent_of(path_) + "/" + name, *options_.io);
    }
  }
}

}  // namespace xrun::runtime
