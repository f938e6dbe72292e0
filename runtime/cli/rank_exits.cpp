#include "runtime/cli/rank_exits.h"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace xrun::cli {
namespace {

constexpr const char* kVariable = "XRUN_RANK_EXITS";
constexpr const char* kBegin = "begin";
constexpr const char* kBeginLaunched = "begin-launched";

// Lines are short, so that those of several ranks do not mix.
void tell(const std::string& word) {
  const char* const path = std::getenv(kVariable);
  const int file = path == nullptr ? -1 : ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
  if (file >= 0) {
    const std::string line = word + "\n";
    [[maybe_unused]] const ssize_t written = ::write(file, line.data(), line.size());
    ::close(file);
  }
}

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

RankReports RankExits::take() {
  RankReports reports;
  std::ifstream in(path_);
  for (std::string word; in >> word;) {
    if (word == kBegin || word == kBeginLaunched) {
      ++reports.begun;
      reports.launched = reports.launched || word == kBeginLaunched;
    } else {
      reports.exits.push_back(std::atoi(word.c_str()));
    }
  }
  if (!path_.empty() && ::truncate(path_.c_str(), 0) != 0) {
    path_.clear();  // it is gone
  }
  return reports;
}

void report_begin(bool launched) { tell(launched ? kBeginLaunched : kBegin); }

void report_exit(int exit) { tell(std::to_string(exit)); }

}  // namespace xrun::cli
