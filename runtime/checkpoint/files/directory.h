// The directory of a run's checkpoints: finds its steps, and publishes new ones by a durable rename.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/files/own_files.h"
#include "runtime/train/state/checkpoint_store.h"

namespace xrun::runtime {

// The directory that contains a file.
std::string parent_of(const std::string& path);

// The error for a failed write, with the system's reason: XG0711, kWorld.
Error checkpoint_write_error(const std::string& path, int number);

// The steps in the directory that have a manifest, ascending.
std::vector<int64_t> steps_in(const std::string& directory);
// Returns the step in the file `latest`, even if that step is missing; nullopt if there is no file `latest`. Errors:
// XG0713 the file does not contain the name of a step.
Result<std::optional<std::string>> named_by_latest(const std::string& directory);
// Returns the step that a run resumes from: the one in the file `latest`, or without `latest` the highest step with a
// manifest; nullopt if there is no such step. Errors: XG0713 `latest` contains an incomplete step or no step; kWorld
// XG0713 the directory cannot be read: it may contain a step, so a run must neither use an older one nor start anew.
Result<std::optional<std::string>> newest_in(const std::string& directory);
// Returns the first step in the file `best`; nullopt if the file is missing or not a list of steps. Errors: XG0713.
Result<std::optional<std::string>> best_in(const std::string& directory);
// Writes the best steps that still exist to the file `best`, one per line: "step-000400 0.9812". Errors: XG0711 it
// cannot be written, or another program made the file; kWorld XG0713.
Status write_best(const std::string& directory, const std::vector<BestStep>& best, Io& io);

// Whether `path` is a step directory with its manifest. Errors: kWorld XG0713.
Result<bool> is_step(const std::string& path);

// A step directory that is being written. Until it is published, it has a temporary name, which includes its owner. If
// it is not published, the destructor removes it.
class PendingDirectory {
 public:
  static Result<PendingDirectory> make(const std::string& parent, const std::string& name, Io& io = system_io());
  PendingDirectory(PendingDirectory&& other) noexcept;
  PendingDirectory& operator=(PendingDirectory&&) = delete;
  ~PendingDirectory();

  const std::string& path() const { return path_; }
  // Writes and syncs a small file in the directory.
  Status write(const std::string& name, const std::string& text) const;
  // Syncs the directory, renames it to its final name (replacing a directory of that name atomically), syncs the
  // parent, and points `latest` to it.
  Status publish();

 private:
  explicit PendingDirectory(Io& io) : io_(io) {}
  Status rename_both(const std::string& latest);

  Io& io_;
  std::string parent_;
  std::string name_;
  std::string path_;  // empty once the step is published
};

// Exchanges the names of two directories, atomically if the file system supports that. Returns 0, or the error number
// of the call that failed; `old` then has its former name, unless only the last rename failed, in which case the old
// directory keeps a temporary name.
int change_places(const std::string& fresh, const std::string& old, Io& io = system_io());

// Removes unfinished saves for whose owner `wanted` returns true. Unfinished saves without an owner in their name stay.
// A complete step that was renamed to make place for a new one gets its name back if that name is free.
void remove_pending(const std::string& directory, const std::function<bool(const Owner&)>& wanted, Io& io);

// Removes unfinished saves of this process and of processes that are known to have ended, and old steps. Only steps up
// to `step` for which `own` returns true are removed; the newest `keep`, including `step`, and those in `needed` stay.
void prune(const std::string& directory, int64_t step, int64_t keep, const std::vector<int64_t>& needed,
           const std::function<bool(int64_t step)>& own, Io& io);

}  // namespace xrun::runtime
