#include "runtime/cli/rank_exits.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace xrun::cli {
namespace {

constexpr const char* kVariable = "XRUN_RANK_EXITS";

}  // namespace

RankExits::RankExits() {
  std::error_code failed;
  std::string path = (std::filesystem::temp_directory_path(failed) / "xrun-exits-XXXXXX").string();
  const int file = failed ? -1 : ::mkstemp(path.data());
  if (file >= 0) {
    ::close(file);
    path_ = path;
    ::setenv(kVariable, path_.c_str(), 1);
  }
}

RankExits::~RankExits() {
  if (!path_.empty()) {
    ::unsetenv(kVariable);
    ::unlink(path_.c_str());
  }
}

std::vector<int> RankExits::take() {
  std::vector<int> exits;
  std::ifstream in(path_);
  for (int exit = 0; in >> exit;) {
    exits.push_back(exit);
  }
  if (!path_.empty() && ::truncate(path_.c_str(), 0) != 0) {
    path_.clear();  // it is gone
  }
  return exits;
}

// Lines are short, so that those of several ranks do not mix.
int tell_exit(int exit) {
  const char* const path = std::getenv(kVariable);
  const int file = path == nullptr ? -1 : ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (file >= 0) {
    const std::string line = std::to_string(exit) + "\n";
    [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
    ::close(file);
  }
  return exit;
}

}  // namespace xrun::cli
