#include "runtime/data/readers/directory_walk.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <vector>

#include "graph/base/errors.h"
#include "runtime/formats/files.h"

namespace xrun::runtime {
namespace {

namespace fs = std::filesystem;

using Place = std::pair<dev_t, ino_t>;

constexpr int kMostWays = 64;  // limit for the number of paths (through links) to one directory

class Walk {
 public:
  Walk(const std::string& root, StopFlag stop, const VisitFile& visit, const EntersDirectory& enters)
      : root_(root), stop_(stop), visit_(visit), enters_(enters) {}

  Status directory(const std::string& path) {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) {
      return file_error(path, errno);
    }
    const Place here{info.st_dev, info.st_ino};
    if (std::ranges::find(above_, here) != above_.end()) {
      return endless(path, "a link to a directory that contains it");
    }
    if (++ways_[here] > kMostWays) {
      return endless(path, "a directory that links reach in more than 64 ways");
    }
    above_.push_back(here);
    std::error_code error;
    fs::directory_iterator at(path, error);
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      XRUN_TRY(check_stop(stop_));
      std::error_code ignored;  // an entry that cannot be examined does not count as a file
      if (at->is_directory(ignored)) {
        if (!enters_ || enters_(below_root(at->path().native()))) {
          XRUN_TRY(directory(at->path().native()));
        }
      } else if (at->is_regular_file(ignored)) {
        XRUN_TRY(visit_(below_root(at->path().native())));
      }
    }
    above_.pop_back();
    return error ? Status(file_error(path, error.value())) : Status();
  }

 private:
  std::string_view below_root(std::string_view path) const {
    path.remove_prefix(root_.size());
    path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
    return path;
  }
  static Error endless(const std::string& path, const char* why) {
    return content_error("XG0401", {"{} is {}", path, why},
                         "remove the link, or name the directories that hold the pictures");
  }

  const std::string& root_;
  StopFlag stop_;
  const VisitFile& visit_;
  const EntersDirectory& enters_;
  std::vector<Place> above_;   // directories on the path to the current one
  std::map<Place, int> ways_;  // number of visits of each directory so far
};

}  // namespace

Status walk_directory(const std::string& root, StopFlag stop, const VisitFile& visit, const EntersDirectory& enters) {
  return Walk(root, stop, visit, enters).directory(root);
}

}  // namespace xrun::runtime
