#include "runtime/checkpoint/class_rows/class_row_errors.h"

#include <cstring>

#include "graph/base/errors.h"

namespace xrun::runtime {
namespace {

constexpr const char* kStartAgain = "continue from a checkpoint of another directory, or start again";

}  // namespace

Error bad_rows_file(std::string_view path, std::string_view why) {
  return content_error("XG0710", {"{} {}", path, why}, kStartAgain);
}

Error foreign_rows_file(std::string_view path) {
  return world_error("XG0711", {"{} is not a rows file and would be overwritten", path},
                     "move it away, or choose another directory with -C or `checkpoint { dir }`");
}

Error rows_file_in_use(std::string_view path, std::string_view by) {
  return world_error("XG0712", {"{} is in use by {}", path, by}, "wait for it, or choose another directory with -C");
}

Error unmapped_rows_file(std::string_view path, int fault) {
  return world_error("XG0713", {"cannot map {}: {}", path, std::strerror(fault)},
                     "keep the rows on a file system that maps files, or allow more address space (ulimit -v)");
}

Error unreadable_rows_file(std::string_view path, std::string_view why) {
  return world_error("XG0713", {"cannot read {}: {}", path, why},
                     "check the disk and the rights of this file, then start the same command again");
}

}  // namespace xrun::runtime
