// The right to write into a directory of checkpoints: one process has it at a time, on whatever host.
#pragma once

#include <string>

#include "graph/base/io.h"
#include "graph/base/result.h"

namespace xrun::runtime {

// A lock by the system on the file `lock` in the directory, which network file systems carry between hosts, and one on
// the directory itself. The file names the process that has it; the name of a process that ended without giving it back
// stays. A file `lock` that is not of this form is somebody else's, and is not written over.
// (docs/decisions/0014-a-lock-that-names-its-owner.md)
class DirectoryLock {
 public:
  // Makes the directory when it is not there, and removes what the owner before left unfinished. Errors: XG0711, also
  // where the file is somebody else's; XG0712 another process has it, or may have it: the file system has no locks, and
  // the owner that the file names is not known to have ended.
  static Result<DirectoryLock> take(const std::string& directory, Io& io = system_io());
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(Io& io) : io_(io) {}

  Io& io_;
  int directory_ = -1;
  int file_ = -1;
  bool taken_ = false;  // the file names this process
};

}  // namespace xrun::runtime
