// The directory of a run's checkpoints: names of steps, `latest`, and the durable rename.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/base/result.h"
#include "runtime/checkpoint/own_files.h"
#include "runtime/train/checkpoint_store.h"

namespace xrun::runtime {

// The directory that contains a file.
std::string parent_of(const std::string& path);

// The error for a failed write, with the system's reason: XG0711, kWorld.
Error checkpoint_write_error(const std::string& path, int number);

// Steps that have a manifest, ascending.
std::vector<int64_t> steps_in(const std::string& directory);
// The step that `latest` names, even if it is missing; nullopt if there is no such file. Errors: XG0713 it names no
// step.
Result<std::optional<std::string>> named_by_latest(const std::string& directory);
// The step that a run resumes from: the one that `latest` names, or without `latest` the highest one with a manifest;
// nullopt if there is no such step. Errors: XG0713 if `latest` names an incomplete step, or no step; kWorld XG0713 if
// the directory cannot be read, so that neither an older step nor a new run replaces it.
Result<std::optional<std::string>> newest_in(const std::string& directory);
// The step that `best` names first; nullopt if the file is missing or not a list of steps. Errors: XG0713.
Result<std::optional<std::string>> best_in(const std::string& directory);
// Writes those best steps that still exist into `best`, one per line: "step-000400 0.9812". Errors: XG0711, also if the
// file belongs to somebody else; kWorld XG0713.
Status write_best(const std::string& directory, const std::vector<BestStep>& best, Io& io);

// Whether `path` is a step directory with its manifest. Errors: kWorld XG0713.
Result<bool> is_step(const std::string& path);

// A directory under a temporary name, which includes its owner, until it is published. If it was not published, the
// destructor removes it.
class PendingDirectory {
 public:
  static Result<PendingDirectory> make(const std::string& parent, const std::string& name, Io& io = system_io());
  PendingDirectory(PendingDirectory&& other) noexcept;
  PendingDirectory& operator=(PendingDirectory&&) = delete;
  ~PendingDirectory();

  const std::string& path() const { return path_; }
  // Writes and syncs a small file inside.
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
  std::string path_;  // empty once published
};

// Exchanges two directories, atomically if the file system supports that. Returns 0 or the errno of the call that
// failed. `old` is then back in place, unless only the last rename failed: the former directory keeps its temporary
// name.
int change_places(const std::string& fresh, const std::string& old, Io& io = system_io());

// Removes unfinished saves whose owner `wanted` accepts; those without an owner in their name stay. A step that was
// moved aside for a new one gets its name back if no step has that name.
void remove_pending(const std::string& directory, const std::function<bool(const Owner&)>& wanted, Io& io);

// Removes unfinished saves of this process and of processes that are known to have ended. Among the `own` steps up to
// `step`, keeps the newest `keep`, including `step`, and those of `needed`, and removes the others.
void prune(const std::string& directory, int64_t step, int64_t keep, const std::vector<int64_t>& needed,
           const std::function<bool(int64_t step)>& own, Io& io);

}  // namespace xrun::runtime
