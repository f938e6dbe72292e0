// Tests: tests/runtime/cluster/stuck_launcher_test.cpp
#include "runtime/cluster/rank_exits.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <unistd.h>

namespace xrun::cli {
namespace {

constexpr const char* kVariable = "XRUN_RANK_EXITS";
const std::string kBegin = "begin";
const std::string kBeginLaunched = "begin-launched";

// Identifies the scope in which a process number is valid: one boot of this machine, and one PID namespace.
std::string process_space() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code ignored;
  return boot + "/" + std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

// Appends a line to the file. Lines are short, so that lines of several ranks are not mixed.
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

bool RankExits::all_gone() const {
  std::ifstream in(path_);
  bool any = false;
  for (std::string word; in >> word;) {
    if (!word.starts_with(kBegin)) {
      continue;
    }
    any = true;
    const size_t at = word.find('@');
    const size_t end = word.find('@', at + 1);
    const int pid = end == std::string::npos ? 0 : std::atoi(word.substr(at + 1).c_str());
    if (pid <= 0 || word.substr(end + 1) != process_space() || ::kill(pid, 0) == 0 || errno != ESRCH) {
      return false;
    }
  }
  return any;
}

RankReports RankExits::take() {
  RankReports reports;
  std::ifstream in(path_);
  for (std::string word; in >> word;) {
    if (word.starts_with(kBegin)) {
      ++reports.begun;
      reports.launched = reports.launched || word.starts_with(kBeginLaunched);
    } else {
      reports.exits.push_back(std::atoi(word.c_str()));
    }
  }
  if (!path_.empty() && ::truncate(path_.c_str(), 0) != 0) {
    path_.clear();  // the file was removed
  }
  return reports;
}

// Reports the start of this process with its process number, so that a launcher that outlives its ranks can be found.
void report_begin(const Launch& launch) {
  const bool is_rank = launch.count != 1 && !launch.mpis.empty();
  const bool of_mpich = is_rank && launch.mpis[0] == Mpi::kMpich;
  tell((of_mpich ? kBeginLaunched : kBegin) + (is_rank ? fmt::format("@{}@{}", ::getpid(), process_space()) : ""));
}

void report_exit(int exit) { tell(std::to_string(exit)); }

}  // namespace xrun::cli
