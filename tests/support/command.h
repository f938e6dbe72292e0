// Runs the xrun binary as a user would: words in; exit code, stdout and stderr out.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace xrun::testing {

struct CommandOptions {
  std::string binary;                                            // empty: the one of this build
  std::string directory;                                         // working directory; empty: a fresh temporary one
  std::vector<std::pair<std::string, std::string>> environment;  // on top of a plain one (no XRUN_*, LANG=C.UTF-8)
  int64_t file_size_limit = -1;                                  // RLIMIT_FSIZE in bytes
  int uid = -1;                                                  // run as this user (needs root)
  double timeout_s = 120;
  double kill_after_s = -1;  // SIGKILL at that time
  int signal = 0;            // sent once the output has `signal_on`
  std::string signal_on;
};

struct CommandResult {
  int exit = -1;  // 128 + signal when killed
  std::string out;
  std::string err;
  bool timed_out = false;
};

CommandResult run_xrun(const std::vector<std::string>& words, const CommandOptions& options = {});

// A directory below the build folder that is removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file below it and gives its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

std::string read_file(const std::string& path);

}  // namespace xrun::testing
