// The second copies of checkpoints on a disk of this host (`checkpoint.copy`): PATH/step-000400 has the manifest of the
// checkpoint and this host's share of the files. Copies are read from the directory of the run in the background while
// steps run, and published in PATH in the way the run publishes its checkpoints.
// (docs/decisions/0042-second-copies-of-checkpoints.md)
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "graph/base/units.h"
#include "graph/os/io.h"
#include "runtime/checkpoint/files/lock.h"
#include "runtime/device/background_work.h"

namespace xrun::runtime {

// The files of a step that one host copies.
struct CopyShare {
  std::set<std::string> names;
  bool class_names = false;  // also the file with the names of the classes
};

// Makes the second copies of one host; only one process of the host has such an object. Threads: one makes all calls.
class SecondCopy {
 public:
  // Creates and locks the directory `path`, PATH above. `directory`: the existing directory of the run's checkpoints;
  // `keep`: the number of steps that stay in PATH. Errors: kContent XG0720, PATH is `directory` or lies in it; kWorld
  // XG0720, PATH cannot be written; XG0712 another run or another host writes into it.
  static Result<std::unique_ptr<SecondCopy>> open(std::string directory, std::string path, int64_t keep, Io& io);
  // Abandons the copy under way.
  ~SecondCopy();

  // Begins to copy files of a step in the background. REQUIRES: no copy is under way; the step is not removed until the
  // copy has ended.
  // Throws std::system_error if the system cannot start a thread.
  void begin(int64_t step, CopyShare share);
  bool done() const { return !work_ || work_->done(); }
  void wait();
  // Returns the size of the last copy, which is then durable, or the error of that copy. REQUIRES: done().
  const Result<Bytes>& outcome() const { return outcome_; }

  const std::string& path() const { return path_; }

 private:
  SecondCopy(std::string directory, std::string path, int64_t keep, Io& io, DirectoryLock lock);
  Result<Bytes> copy(int64_t step, const CopyShare& share);
  Status copy_class_names(const std::string& digest);

  std::string directory_;
  std::string path_;
  int64_t keep_;
  Io& io_;
  DirectoryLock lock_;
  std::set<std::string> class_names_;  // digests of the files of class names that were copied
  Result<Bytes> outcome_ = Bytes{0};
  std::atomic<bool> given_up_ = false;
  std::optional<BackgroundWork> work_;  // last member, because its thread reads the others
};

}  // namespace xrun::runtime
