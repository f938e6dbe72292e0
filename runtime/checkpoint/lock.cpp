// The file: "HOST OWNER\n" while a process has the lock (owner.h), empty after it gave it back.
#include "runtime/checkpoint/lock.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "graph/base/durable.h"
#include "graph/base/errors.h"
#include "graph/base/utf8.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/owner.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

// A directory is there for good when the one that names it is synced.
Status create_directories(const std::string& directory) {
  std::vector<std::string> parents;
  std::error_code error;
  fs::path path = fs::absolute(directory, error).lexically_normal();
  for (; path.has_relative_path() && !fs::exists(path, error); path = path.parent_path()) {
    parents.push_back(path.parent_path().string());
  }
  fs::create_directories(directory, error);
  if (error) {
    return checkpoint_write_error(directory, error.value());
  }
  for (const std::string& parent : parents) {
    if (const int fault = sync_directory(parent); fault != 0) {
      return checkpoint_write_error(parent, fault);
    }
  }
  return {};
}

struct Holder {
  std::string host;
  std::optional<Owner> owner;  // none: nobody
  bool foreign = false;        // the file is of another form
};

Holder read_holder(int file) {
  char text[512];
  const ssize_t got = ::pread(file, text, sizeof text, 0);
  const std::string_view all(text, static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (all.find_first_not_of('\0') == std::string_view::npos) {
    return {};  // given back, or cut off by a power failure
  }
  const std::string_view line = all.substr(0, all.find('\n'));
  const size_t blank = std::min(line.find(' '), line.size());
  const auto owner = parse_owner(line.substr(std::min(blank + 1, line.size())));
  return {printable_line(line.substr(0, blank)), owner, !owner || line.size() + 1 < all.size()};
}

int write_holder(int file) {
  const std::string line = host_name() + " " + to_text(this_process()) + "\n";
  const bool good = ::ftruncate(file, 0) == 0 &&
                    ::pwrite(file, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size()) &&
                    ::fsync(file) == 0;
  return good ? 0 : errno;
}

Error foreign_lock(const std::string& path) {
  return world_error("XG0711", {"{} is no lock of a run, and would be written over", path},
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

int lock_by_system(int file) { return ::flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno; }

Result<DirectoryLock> DirectoryLock::take(const std::string& directory, LockCall lock) {
  XRUN_TRY(create_directories(directory));
  DirectoryLock made;
  made.directory_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (made.directory_ < 0 || ::access(directory.c_str(), W_OK | X_OK) != 0) {
    return checkpoint_write_error(directory, errno);
  }
  const std::string path = directory + "/lock";
  // A network file system gives an exclusive lock only on a file that is open for writing.
  made.file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  struct stat info {};
  if (made.file_ < 0 || ::fstat(made.file_, &info) != 0) {
    return errno == ELOOP ? foreign_lock(path) : checkpoint_write_error(path, errno);
  }
  const Holder before = S_ISREG(info.st_mode) ? read_holder(made.file_) : Holder{.foreign = true};
  if (before.foreign) {
    return foreign_lock(path);
  }
  // The directory, too: on this host its lock holds even if somebody removes the file.
  const bool directory_is_taken = lock(made.directory_) == EWOULDBLOCK;
  const int fault = lock(made.file_);
  if (directory_is_taken || fault == EWOULDBLOCK) {
    return locked(directory, before, true);
  }
  if (fault != 0 && before.owner && !has_ended(*before.owner)) {
    return locked(directory, before, false);
  }
  if (before.owner) {  // which the system has seen end, or which is known to have ended
    remove_pending(directory, [&](const Owner& owner) { return owner == *before.owner; });
  }
  if (const int unwritten = write_holder(made.file_); unwritten != 0) {
    return checkpoint_write_error(path, unwritten);
  }
  made.taken_ = true;
  return made;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : directory_(std::exchange(other.directory_, -1)),
      file_(std::exchange(other.file_, -1)),
      taken_(std::exchange(other.taken_, false)) {}

DirectoryLock::~DirectoryLock() {
  if (taken_) {
    (void)!::ftruncate(file_, 0);  // a name that stays is that of a process that has ended
  }
  for (const int file : {file_, directory_}) {
    if (file >= 0) {
      ::close(file);
    }
  }
}

}  // namespace xrun::runtime
