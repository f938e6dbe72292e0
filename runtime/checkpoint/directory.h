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

// The directory that a file lies in.
std::string parent_of(const std::string& path);

// What the system says when writing fails: XG0711, kWorld.
Error checkpoint_write_error(const std::string& path, int number);

// Steps that have a manifest, ascending.
std::vector<int64_t> steps_in(const std::string& directory);
// Where a run goes on: the step that `latest` names, or without `latest` the highest one with a manifest. None where
// there is none. Errors: XG0713 where `latest` names a step that is not whole, or none at all, and kWorld XG0713 where
// the system does not let one look, so that neither an older step nor a new run is taken for it.
Result<std::optional<std::string>> newest_in(const std::string& directory);
// The step that `best` names first; none where there is no such file, or another one of this name.
Result<std::optional<std::string>> best_in(const std::string& directory);
// Puts the best steps into `best`, a line each, as far as they are there: "step-000400 0.9812". Errors: XG0711, also
// where the file is somebody else's.
Status write_best(const std::string& directory, const std::vector<BestStep>& best, Io& io);

// Whether `path` is a step directory with its manifest. Errors: as above.
Result<bool> is_step(const std::string& path);

// A directory under another name, which tells its owner, until it is published. Removes it when it is not.
class PendingDirectory {
 public:
  static Result<PendingDirectory> make(const std::string& parent, const std::string& name, Io& io = system_io());
  PendingDirectory(PendingDirectory&& other) noexcept;
  PendingDirectory& operator=(PendingDirectory&&) = delete;
  ~PendingDirectory();

  const std::string& path() const { return path_; }
  // Writes and syncs a small file inside.
  Status write(const std::string& name, const std::string& text) const;
  // Syncs the directory, gives it its name (replacing one of the same name at once), syncs the parent, and points
  // `latest` to it.
  Status publish();

 private:
  explicit PendingDirectory(Io& io) : io_(io) {}
  Status rename_both(const std::string& latest);

  Io& io_;
  std::string parent_;
  std::string name_;
  std::string path_;  // empty once published
};

// Two directories change places, in one move where the file system can. Gives errno of what failed, with `old` in its
// place, or 0.
int change_places(const std::string& fresh, const std::string& old, Io& io = system_io());

// Removes unfinished saves whose owner `wanted` takes; those that name none stay. A step that was to make room for a
// new one gets its name back, where no step has that name.
void remove_pending(const std::string& directory, const std::function<bool(const Owner&)>& wanted, Io& io);

// Removes unfinished saves of this process and of those that are known to have ended, and old steps that are `own` but
// for the newest `keep` up to `step`, which stays.
void prune(const std::string& directory, int64_t step, int64_t keep, const std::function<bool(int64_t step)>& own,
           Io& io);

}  // namespace xrun::runtime
