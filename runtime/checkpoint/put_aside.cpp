// Tests: tests/cases/begin_anew_test.cpp
#include "runtime/checkpoint/put_aside.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

#include "graph/base/errors.h"
#include "graph/os/durable.h"
#include "runtime/checkpoint/files/directory.h"
#include "runtime/checkpoint/files/lock.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

bool holds_a_run(const std::string& directory) {
  std::error_code error;
  return !steps_in(directory).empty() || fs::exists(fs::symlink_status(directory + "/latest", error));
}

// Returns the path to rename: if `directory` is a link, the directory that it points to, so that the link remains.
fs::path target_of(const std::string& directory) {
  std::error_code error;
  const std::string name = directory.substr(0, std::max<size_t>(1, directory.find_last_not_of('/') + 1));
  const fs::path target = fs::is_symlink(name, error) ? fs::canonical(name, error) : fs::path(name);
  return error ? fs::path(name) : target;
}

// Whether the directory contains more than a run: files of the user's model, or the working directory.
bool holds_more_than_a_run(const fs::path& target) {
  std::error_code error;
  const fs::path directory = fs::canonical(target, error);
  const fs::path here = fs::current_path(error);
  const bool is_above =
      std::mismatch(directory.begin(), directory.end(), here.begin(), here.end()).first == directory.end();
  for (fs::directory_iterator at(directory, error); !error && at != fs::directory_iterator(); at.increment(error)) {
    if (at->path().extension() == ".xgraph") {
      return true;
    }
  }
  return is_above;
}

}  // namespace

std::string aside_name(const std::string& directory) {
  const std::string target = target_of(directory).string();
  for (int number = 1;; ++number) {
    std::string name = fmt::format("{}.{}", target, number);
    std::error_code error;
    if (!fs::exists(fs::symlink_status(name, error))) {
      return name;
    }
  }
}

Result<std::string> put_aside(const std::string& directory, Io& io) {
  if (!holds_a_run(directory)) {
    return std::string();
  }
  // Taking the lock fails if a run still writes into the directory. The lock stays valid when the directory is
  // renamed.
  XRUN_ASSIGN(const DirectoryLock lock, DirectoryLock::take(directory, io));
  const std::string target = target_of(directory).string();
  if (holds_more_than_a_run(target)) {
    return world_error("XG0711",
                       {"{} holds more than the files of a run, and `--overwrite` would rename all of it", directory},
                       "choose another directory with -C or `checkpoint { dir }`, or move its checkpoints by hand");
  }
  std::string name = aside_name(directory);
  int fault = io.rename(target, name);
  fault = fault == 0 ? io.make_directory(target) : fault;
  fault = fault == 0 ? sync_directory(parent_of(target), io) : fault;
  if (fault != 0) {
    return world_error("XG0711", {"cannot move {} to {}: {}", directory, name, std::strerror(fault)},
                       "move it by hand, or choose another directory with -C or `checkpoint { dir }`");
  }
  return name;
}

Status make_room(const CheckpointOptions& options, const std::string& directory) {
  if (options.resume != "never" || !options.overwrite) {
    return {};
  }
  XRUN_ASSIGN(const std::string name, put_aside(directory, *options.io));
  if (!name.empty() && options.on_aside) {
    options.on_aside(directory, name);
  }
  return {};
}

Error would_write_over(const std::string& directory, const std::string& newest) {
  return content_error("XG0722",
                       {"`--resume never` begins a new run in {}, which has a run up to {}: its checkpoints and its "
                        "curve would be lost",
                        directory, newest},
                       {"leave `--resume never` out to continue that run, add --overwrite, which first moves it to {}, "
                        "or choose another directory with -C",
                        aside_name(directory)});
}

}  // namespace xrun::runtime
