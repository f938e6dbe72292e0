// Tests: tests/runtime/data/readers/webdataset/shard_paths_test.cpp
#include "runtime/data/readers/webdataset/shard_paths.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "graph/base/errors.h"
#include "runtime/data/readers/glob.h"
#include "runtime/data/readers/reader.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

bool is_url(std::string_view path) { return path.find("://") != std::string_view::npos || path.starts_with("pipe:"); }

bool has_wildcard(std::string_view path) { return path.find_first_of("*?") != std::string_view::npos; }

// Appends the files in `directory` whose names fit, in byte order. Returns their number.
Result<size_t> add_files(const std::string& directory, const Glob& match, std::vector<std::string>& paths) {
  std::error_code error;
  const size_t first = paths.size();
  for (fs::directory_iterator at(directory.empty() ? "." : directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (!name.starts_with('.') && match.matches(name) && !at->is_directory(ignored)) {
      paths.push_back(directory.empty() ? name : (fs::path(directory) / name).string());
    }
  }
  if (error) {
    return file_error(directory, error.value());
  }
  std::sort(paths.begin() + static_cast<std::ptrdiff_t>(first), paths.end());
  return paths.size() - first;
}

// Appends the paths of one pattern without braces.
Status add_pattern(const std::string& path, std::vector<std::string>& paths) {
  std::error_code ignored;
  const bool is_directory = fs::is_directory(path, ignored);
  if (!has_wildcard(path) && !is_directory) {
    paths.push_back(path);
    return {};
  }
  const size_t slash = is_directory ? path.size() : path.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : path.substr(0, std::max<size_t>(slash, 1));
  const std::string name = is_directory ? "*.tar" : path.substr(slash + 1);
  if (!is_directory && has_wildcard(directory)) {
    return content_error("XG0413", {"the pattern \"{}\" has `*` or `?` in the name of a directory", path},
                         "name each directory, or use a range: {a,b}/train-*.tar");
  }
  XRUN_ASSIGN(const Glob match, Glob::parse(name));
  XRUN_ASSIGN(const size_t found, add_files(directory, match, paths));
  if (found == 0) {
    return content_error(
        "XG0401", {"no file {} {}", is_directory ? "with the extension .tar is in" : "fits", path},
        "check the path; a relative path starts at the file that names it, and on the command line at the "
        "working directory");
  }
  return {};
}

}  // namespace

Result<std::vector<std::string>> shard_paths(const std::string& directory, const std::vector<std::string>& patterns) {
  std::vector<std::string> paths;
  for (const std::string& pattern : patterns) {
    if (is_url(pattern)) {
      return content_error("XG0401", {"{} is not a file", pattern},
                           "copy the shards to a disk or a file system of this machine, and name them there");
    }
    const std::string path = resolve_path(directory, pattern);
    std::error_code ignored;
    if (fs::exists(path, ignored)) {
      XRUN_TRY(add_pattern(path, paths));
      continue;
    }
    XRUN_ASSIGN(const Glob expanded, Glob::parse(path, kMostShards));
    for (const std::string& one : expanded.alternatives()) {
      XRUN_TRY(add_pattern(one, paths));
    }
    if (paths.size() > kMostShards) {
      return content_error("XG0413", {"more than {} shards", kMostShards}, "write larger shards, or name fewer");
    }
  }
  return paths;
}

}  // namespace xrun::runtime
