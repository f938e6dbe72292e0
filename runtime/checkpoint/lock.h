// The right to write into a directory of checkpoints: one process has it at a time, on whatever host.
#pragma once

#include <string>

#include "graph/base/result.h"

namespace xrun::runtime {

// Locks an open file or directory for this process alone: 0, or errno; EWOULDBLOCK where another process has it.
using LockCall = int (*)(int file);
int lock_by_system(int file);

// A lock by the system on the file `lock` in the directory, which network file systems carry between hosts, and one on
// the directory itself. The file names the process that has it; the name of a process that ended without giving it back
// stays. A file `lock` that is not of this form is somebody else's, and is not written over.
// (docs/decisions/0014-a-lock-that-names-its-owner.md)
class DirectoryLock {
 public:
  // Makes the directory when it is not there, and removes what the owner before left unfinished. Errors: XG0711, also
  // where the file is somebody else's; XG0712 another process has it, or may have it: the file system has no locks, and
  // the owner that the file names is not known to have ended.
  static Result<DirectoryLock> take(const std::string& directory, LockCall lock = lock_by_system);
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  DirectoryLock() = default;

  int directory_ = -1;
  int file_ = -1;
  bool taken_ = false;  // the file names this process
};

}  // namespace xrun::runtime
