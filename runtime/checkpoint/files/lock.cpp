// The file contains the line "HOST OWNER\n" (owner.h) while a process has the lock, and is empty after the release. A
// power failure may leave an incomplete line, followed by zeros.
//
// Taking the lock: read the file; lock the directory and the file. If another process holds one of the two locks, the
// directory is in use. If the file system has no locks, the directory is in use unless the process in the file is known
// to have ended. Otherwise unfinished saves of the previous holder are removed, and the line of this process is written
// to the file.
// Tests: tests/runtime/checkpoint/tensors/checkpoint_test.cpp
#include "runtime/checkpoint/files/lock.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <ranges>
#include <span>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/owner.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

// Creates the directory and its parents, and syncs them: a new directory survives a power cut once its parent is
// synced.
Status create_directories(const std::string& directory, Io& io) {
  std::vector<fs::path> missing;
  std::error_code error;
  fs::path path = fs::absolute(directory, error).lexically_normal();
  for (; path.has_relative_path() && !fs::exists(path, error); path = path.parent_path()) {
    missing.push_back(path);
  }
  for (const fs::path& one : missing | std::views::reverse) {
    const int fault = io.make_directory(one.string());
    if (fault != 0 && fault != EEXIST) {  // another run may have created it meanwhile
      return checkpoint_write_error(directory, fault);
    }
    const std::string parent = one.parent_path().string();
    if (const int unsynced = sync_directory(parent, io); unsynced != 0) {
      return checkpoint_write_error(parent, unsynced);
    }
  }
  return {};
}

struct Holder {
  std::string host;
  std::optional<Owner> owner;  // process in the file; nullopt: the lock is free
  bool foreign = false;        // whether the file comes from another program
};

// Whether the text is an incomplete line, as a power failure may leave it.
bool is_torn(std::string_view text) {
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) {
    return host_name().starts_with(text);
  }
  const std::string_view owner = text.substr(blank + 1);
  const std::string_view boot = owner.substr(0, kBootDigits);
  return boot.find_first_not_of("0123456789abcdef") == std::string_view::npos &&
         owner.find_first_not_of(".0123456789", boot.size()) == std::string_view::npos;
}

Holder read_holder(int file) {
  char bytes[512];
  const ssize_t got = ::pread(file, bytes, sizeof bytes, 0);
  const std::string_view all(bytes, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  const std::string_view text = all.substr(0, all.find('\0'));
  const bool is_text = all.find_first_not_of('\0', text.size()) == std::string_view::npos;
  const std::string_view line = text.substr(0, text.find('\n'));
  const size_t blank = std::min(line.find(' '), line.size());
  const auto owner = parse_owner(line.substr(std::min(blank + 1, line.size())));
  if (is_text && owner && line.size() + 1 >= text.size()) {
    return {printable_line(line.substr(0, blank)), owner};
  }
  // An empty or incomplete line means that the lock was released, or that the power failed.
  return {.foreign = !is_text || !is_torn(text)};
}

int write_holder(int file, Io& io) {
  const std::string line = host_name() + " " + to_text(this_process()) + "\n";
  int fault = io.truncate(file);
  fault = fault == 0 ? io.write(file, std::as_bytes(std::span(line))) : fault;
  return fault == 0 ? io.sync(file) : fault;
}

Error foreign_lock(const std::string& path) {
  return world_error("XG0711", {"{} is not the lock file of a run and would be overwritten", path},
                     "move it away, or choose another directory with -C or `checkpoint { dir }`");
}

Error locked(const std::string& directory, const Holder& holder, bool by_system) {
  const std::string who = holder.owner ? fmt::format("process {} on {}", holder.owner->pid, holder.host) : "a process";
  if (by_system) {
    return world_error("XG0712", {"another run writes its checkpoints into {}: {}", directory, who},
                       "wait for it, or choose another directory with -C");
  }
  return world_error(
      "XG0712", {"another run may write its checkpoints into {}, whose file system has no locks: {}", directory, who},
      {"when that process has ended, remove {}/lock; else choose another directory with -C", directory});
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const std::string& directory, Io& io) {
  XRUN_TRY(create_directories(directory, io));
  DirectoryLock made(io);
  made.directory_ = io.open(directory, O_RDONLY | O_DIRECTORY);
  if (made.directory_ < 0 || ::access(directory.c_str(), W_OK | X_OK) != 0) {
    return checkpoint_write_error(directory, made.directory_ < 0 ? -made.directory_ : errno);
  }
  const std::string path = directory + "/lock";
  // A network file system gives an exclusive lock only on a file that is open for writing.
  made.file_ = io.open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  struct stat info {};
  if (made.file_ < 0 || ::fstat(made.file_, &info) != 0) {
    const int fault = made.file_ < 0 ? -made.file_ : errno;
    return fault == ELOOP ? foreign_lock(path) : checkpoint_write_error(path, fault);
  }
  const Holder before = S_ISREG(info.st_mode) ? read_holder(made.file_) : Holder{.foreign = true};
  if (before.foreign) {
    return foreign_lock(path);
  }
  // Also locks the directory, so that on this host the lock works even if somebody removes the file.
  const bool directory_is_taken = io.lock(made.directory_) == EWOULDBLOCK;
  const int fault = io.lock(made.file_);
  if (directory_is_taken || fault == EWOULDBLOCK) {
    return locked(directory, before, true);
  }
  if (fault != 0 && before.owner && !has_ended(*before.owner)) {
    return locked(directory, before, false);
  }
  if (before.owner) {  // the previous holder has lost its lock, or is known to have ended
    remove_pending(
        directory, [&](const Owner& owner) { return owner == *before.owner; }, io);
  }
  if (const int unwritten = write_holder(made.file_, io); unwritten != 0) {
    return checkpoint_write_error(path, unwritten);
  }
  made.taken_ = true;
  return made;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : io_(other.io_),
      directory_(std::exchange(other.directory_, -1)),
      file_(std::exchange(other.file_, -1)),
      taken_(std::exchange(other.taken_, false)) {}

DirectoryLock::~DirectoryLock() {
  if (taken_) {
    io_.truncate(file_);  // if this fails, the file contains a process that has ended
  }
  for (const int file : {file_, directory_}) {
    if (file >= 0) {
      io_.close(file);
    }
  }
}

}  // namespace xrun::runtime
