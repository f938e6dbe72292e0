// Tests: tests/runtime/checkpoint/tensors/checkpoint_test.cpp
#include "runtime/checkpoint/files/directory.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "graph/os/regular_file.h"
#include "runtime/checkpoint/files/read_file.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

Status written(const std::string& path, int fault) {
  return fault == 0 ? Status() : checkpoint_write_error(path, fault);
}

Status write_file(const std::string& path, const std::string& text, Io& io) {
  return written(path, write_durably(path, std::as_bytes(std::span(text)), io));
}

Error cannot_look(const std::string& path, int number) {
  return world_error("XG0713", {"cannot look into {}: {}", path, std::strerror(number)}, read_help(number));
}

// The beginning of a short file. `text` is empty if there is no file of this name; `is_file` is false if the name
// belongs to something other than a file. Errors: XG0713.
struct ShortFile {
  std::string text;
  bool is_file = true;
};
Result<std::optional<ShortFile>> read_short(const std::string& path) {
  const int file = open_regular(path, Links::kRefuse);
  if (file == -ENOENT || file == -ENOTDIR) {
    return std::optional<ShortFile>();
  }
  if (file == -ELOOP || file == -EISDIR || file == -ESPIPE) {
    return std::optional(ShortFile{.is_file = false});
  }
  if (file < 0) {
    return cannot_look(path, -file);
  }
  char text[256];
  const ssize_t got = ::read(file, text, sizeof text);
  const int number = errno;
  ::close(file);
  return got < 0 ? Result<std::optional<ShortFile>>(cannot_look(path, number))
                 : std::optional(ShortFile{.text = std::string(text, static_cast<size_t>(got))});
}

// Returns the name of the step at the beginning of a line such as "step-000400 0.9812".
std::optional<std::string> step_of_line(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(' '));
  return name.size() < text.size() && step_of_name(name) ? std::optional(std::string(name)) : std::nullopt;
}

// Whether the directory contains a step of this name with a manifest. A link to a step elsewhere does not count.
Result<bool> is_step_of(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  struct stat what {};
  const bool is_link = ::lstat(path.c_str(), &what) == 0 && S_ISLNK(what.st_mode);
  return is_link ? Result<bool>(false) : is_step(path);
}

// Returns the name of the highest step that has a manifest.
Result<std::optional<std::string>> highest_in(const std::string& directory) {
  std::error_code error;
  std::vector<int64_t> steps;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (const auto step = step_of_name(at->path().filename().string())) {
      steps.push_back(*step);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory) {
    return cannot_look(directory, error.value());
  }
  std::ranges::sort(steps, std::greater());
  for (const int64_t step : steps) {
    XRUN_ASSIGN(const bool whole, is_step_of(directory, step_name(step)));
    if (whole) {
      return std::optional(step_name(step));
    }
  }
  return std::optional<std::string>();
}

}  // namespace

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

Error checkpoint_write_error(const std::string& path, int number) {
  const bool full = number == ENOSPC || number == EDQUOT || number == EFBIG;
  return world_error("XG0711", {"cannot write {}: {}", path, std::strerror(number)},
                     full ? "free some space, or choose another directory with -C or `checkpoint { dir }`"
                          : "choose another directory with -C or `checkpoint { dir }`");
}

std::vector<int64_t> steps_in(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const auto step = step_of_name(at->path().filename().string());
    std::error_code ignored;
    if (step && fs::exists(at->path() / "manifest.json", ignored)) {
      steps.push_back(*step);
    }
  }
  std::ranges::sort(steps);
  return steps;
}

Result<bool> is_step(const std::string& path) {
  struct stat what {};
  if (::stat((path + "/manifest.json").c_str(), &what) == 0) {
    return true;
  }
  return errno == ENOENT || errno == ENOTDIR ? Result<bool>(false) : Result<bool>(cannot_look(path, errno));
}

Result<std::optional<std::string>> named_by_latest(const std::string& directory) {
  const std::string path = directory + "/latest";
  XRUN_ASSIGN(const auto file, read_short(path));
  if (!file) {
    return std::optional<std::string>();
  }
  const std::string_view text = file->text;
  const std::string_view line = text.ends_with('\n') ? text.substr(0, text.size() - 1) : text;
  if (!step_of_name(line)) {
    return content_error(
        "XG0713", {"{} {}", path, file->is_file ? "does not say which step is the newest" : "is not a regular file"},
        "remove it if it is not yours; the newest step with a manifest is then used");
  }
  return std::optional(std::string(line));
}

Result<std::optional<std::string>> newest_in(const std::string& directory) {
  XRUN_ASSIGN(auto latest, named_by_latest(directory));
  while (latest) {
    XRUN_ASSIGN(const bool whole, is_step_of(directory, *latest));
    if (whole) {
      return latest;
    }
    XRUN_ASSIGN(auto again, named_by_latest(directory));
    if (again == latest) {
      break;
    }
    latest = std::move(again);  // a run has just saved a newer step and removed the one that `latest` named
  }
  XRUN_ASSIGN(const auto highest, highest_in(directory));
  if (!latest) {
    return highest;
  }
  return content_error("XG0713", {"{}/latest names {}, which has no manifest.json", directory, *latest},
                       {"restore the step, or remove {}/latest: {}", directory,
                        highest ? *highest + " is then the newest" : "a run then starts from the beginning"});
}

Result<std::optional<std::string>> best_in(const std::string& directory) {
  XRUN_ASSIGN(const auto file, read_short(directory + "/best"));
  const auto step = file ? step_of_line(file->text) : std::nullopt;
  if (!step) {
    return std::optional<std::string>();
  }
  XRUN_ASSIGN(const bool whole, is_step_of(directory, *step));
  if (!whole) {
    return content_error("XG0713", {"{}/best names {}, which has no manifest.json", directory, *step},
                         "restore the step, or name another checkpoint");
  }
  return step;
}

Status write_best(const std::string& directory, const std::vector<BestStep>& best, Io& io) {
  const std::string path = directory + "/best";
  XRUN_ASSIGN(const auto before, read_short(path));
  if (before && !(before->text.empty() && before->is_file) && !step_of_line(before->text)) {
    return world_error("XG0711", {"{} is not a list of best steps and would be overwritten", path},
                       "move it away, or choose another directory with -C or `checkpoint { dir }`");
  }
  std::string text;
  for (const BestStep& one : best) {
    XRUN_ASSIGN(const bool whole, is_step_of(directory, step_name(one.step)));
    text += whole ? fmt::format("{} {}\n", step_name(one.step), one.value) : "";
  }
  const std::string pending = path + pending_tail();
  Status status = write_file(pending, text, io);
  if (status.ok()) {
    status = written(path, io.rename(pending, path));
  }
  if (!status.ok()) {
    io.unlink(pending);
    return status;
  }
  return written(directory, sync_directory(directory, io));
}

Result<PendingDirectory> PendingDirectory::make(const std::string& parent, const std::string& name, Io& io) {
  PendingDirectory made(io);
  made.parent_ = parent;
  made.name_ = name;
  std::string path = fmt::format("{}/{}{}", parent, name, pending_tail());
  XRUN_TRY(written(path, io.make_directory(path)));
  made.path_ = std::move(path);
  return made;
}

PendingDirectory::PendingDirectory(PendingDirectory&& other) noexcept
    : io_(other.io_),
      parent_(std::move(other.parent_)),
      name_(std::move(other.name_)),
      path_(std::exchange(other.path_, "")) {}

PendingDirectory::~PendingDirectory() {
  if (!path_.empty()) {
    remove_step(path_, io_);
  }
}

Status PendingDirectory::write(const std::string& name, const std::string& text) const {
  return write_file(path_ + "/" + name, text, io_);
}

int change_places(const std::string& fresh, const std::string& old, Io& io) {
  int fault = io.exchange(fresh, old);
  if (fault != EINVAL && fault != ENOSYS && fault != EOPNOTSUPP) {
    return fault;
  }
  // Network file systems cannot exchange two names. So the old step is renamed first; if the power fails before the new
  // step gets its final name, the next run recognises the temporary name and renames the old step back.
  const std::string aside = old + former_tail();
  fault = io.rename(old, aside);
  if (fault != 0) {
    return fault;
  }
  fault = io.rename(fresh, old);
  if (fault != 0) {
    io.rename(aside, old);
    return fault;
  }
  return io.rename(aside, fresh);
}

Status PendingDirectory::publish() {
  XRUN_TRY(written(path_, sync_directory(path_, io_)));
  // Writes everything that needs disk space before the step gets its name, since the disk may be full.
  const std::string pending = fmt::format("{}/latest{}", parent_, pending_tail());
  Status status = write_file(pending, name_ + "\n", io_);
  if (status.ok()) {
    status = rename_both(pending);
  }
  if (!status.ok()) {
    io_.unlink(pending);
  }
  return status;
}

Status PendingDirectory::rename_both(const std::string& latest) {
  const std::string target = parent_ + "/" + name_;
  // If the step already exists, it is exchanged with the new step.
  const int fault = io_.rename(path_, target);
  const bool replaced = fault == ENOTEMPTY || fault == EEXIST;
  XRUN_TRY(written(target, replaced ? change_places(path_, target, io_) : fault));
  // The older step is not removed before the new one is durable, even if the sync fails.
  const std::string older = std::exchange(path_, "");
  XRUN_TRY(written(parent_, sync_directory(parent_, io_)));
  if (replaced) {
    remove_step(older, io_);
  }
  XRUN_TRY(written(parent_ + "/latest", io_.rename(latest, parent_ + "/latest")));
  return written(parent_, sync_directory(parent_, io_));
}

void remove_pending(const std::string& directory, const std::function<bool(const Owner&)>& wanted, Io& io) {
  std::error_code error;
  std::vector<std::string> left;
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (const auto pending = pending_of_name(name); pending && wanted(pending->owner)) {
      left.push_back(name);
    }
  }
  const auto restores = [&](const std::string& name) {
    const auto pending = pending_of_name(name);
    return pending->former && io.rename(directory + "/" + name, directory + "/" + pending->name) == 0;
  };
  if (std::erase_if(left, restores) > 0) {
    sync_directory(directory, io);
  }
  for (const std::string& name : left) {
    const std::string path = directory + "/" + name;
    if (step_of_name(pending_of_name(name)->name)) {
      remove_step(path, io);
    } else {
      remove_own_file(path, io);
    }
  }
}

void prune(const std::string& directory, int64_t step, int64_t keep, const std::vector<int64_t>& needed,
           const std::function<bool(int64_t step)>& own, Io& io) {
  remove_pending(
      directory, [here = this_process()](const Owner& owner) { return owner == here || has_ended(owner); }, io);
  // Later steps belong to an abandoned continuation of the run; only the user removes them.
  std::vector<int64_t> steps = steps_in(directory);
  std::erase_if(steps, [&](int64_t other) { return other >= step; });
  int64_t kept = 1;
  for (auto at = steps.rbegin(); at != steps.rend(); ++at) {
    if (own(*at) && ++kept > keep && std::ranges::find(needed, *at) == needed.end()) {
      remove_step(directory + "/" + step_name(*at), io);
    }
  }
}

}  // namespace xrun::runtime
