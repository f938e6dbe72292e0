// A lock on a directory of checkpoints: only one process at a time, on any host, may write into it.
#pragma once

#include <string>

#include "graph/base/result.h"
#include "graph/os/io.h"

namespace xrun::runtime {

// The lock consists of two system locks: one on the file `lock` in the directory, which network file systems share
// between hosts, and one on the directory itself. The file contains the name of the process that holds the lock; the
// name stays if that process ends without releasing the lock. A file `lock` in another format comes from another
// program and is not overwritten. (docs/decisions/0014-a-lock-that-names-its-owner.md)
class DirectoryLock {
 public:
  // Takes the lock. Creates the directory if it is missing, and removes unfinished saves of the previous holder.
  // Errors: XG0711 the directory cannot be written, or the file `lock` comes from another program; XG0712 another
  // process holds the lock, or may hold it because the file system has no locks and the process in the file is not
  // known to have ended.
  static Result<DirectoryLock> take(const std::string& directory, Io& io = system_io());
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(Io& io) : io_(io) {}

  Io& io_;
  int directory_ = -1;
  int file_ = -1;
  bool taken_ = false;  // whether the file contains the name of this process
};

}  // namespace xrun::runtime
