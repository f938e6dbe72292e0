#include "runtime/checkpoint/class_rows/class_row_space.h"

#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

// Bytes on disk of the files in `directory` whose name is `name`, or `name` followed by a dot and more characters.
Bytes taken_by(const std::string& directory, const std::string& name) {
  Bytes sum = 0;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string found = at->path().filename().string();
    struct stat what {};
    if ((found == name || found.starts_with(name + ".")) && ::lstat(at->path().c_str(), &what) == 0) {
      sum += Bytes{what.st_blocks} * 512;
    }
  }
  return sum;
}

// Free bytes on the disk of the directory; nullopt if the system does not report them.
std::optional<Bytes> free_in(fs::path directory) {
  std::error_code ignored;
  while (!fs::exists(directory, ignored) && directory.has_relative_path()) {
    directory = directory.parent_path();
  }
  struct statvfs info {};
  if (::statvfs(directory.empty() ? "." : directory.c_str(), &info) != 0) {
    return std::nullopt;
  }
  return static_cast<Bytes>(static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize));
}

}  // namespace

Status check_room(const std::string& directory, std::span<const RowsRoom> needed) {
  Bytes missing = 0;
  std::string what;
  for (const RowsRoom& one : needed) {
    missing += one.rows + one.undo - taken_by(directory, "rows." + one.head);
    what += fmt::format("{}rows of `{}` {}, their undo log at most {}", what.empty() ? "" : ", ", one.head,
                        format_bytes(one.rows), format_bytes(one.undo));
  }
  const auto space = free_in(directory);
  if (!space || missing <= *space) {
    return {};
  }
  Error error = world_error(
      "XG0711",
      {"class rows in files need {} in {}, but {} are free", format_bytes(missing), directory, format_bytes(*space)},
      "free some space, choose another directory with -C or `checkpoint { dir }`, or save more often: `checkpoint { "
      "every }`");
  error.notes.push_back(what);
  return error;
}

}  // namespace xrun::runtime
