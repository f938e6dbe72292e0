// Runs the xrun binary as a user would: takes the words of the command line and returns the exit code, stdout and
// stderr.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace xrun::testing {

struct CommandOptions {
  std::string binary;                                            // the program; empty: the xrun of this build
  std::string directory;                                         // working directory; empty: a fresh temporary one
  std::vector<std::pair<std::string, std::string>> environment;  // added to LANG=C.UTF-8; no XRUN_* is inherited
  int64_t file_size_limit = -1;                                  // RLIMIT_FSIZE in bytes
  int uid = -1;                                                  // run as this user (needs root)
  double timeout_s = 120;
  double kill_after_s = -1;  // sends SIGKILL after this time
  int signal = 0;            // signal to send when the output contains `signal_on`
  std::string signal_on;
};

struct CommandResult {
  int exit = -1;  // exit code; 128 + the signal if the command was killed
  std::string out;
  std::string err;
  bool timed_out = false;
};

CommandResult run_xrun(const std::vector<std::string>& words, const CommandOptions& options = {});

// A directory below the build folder, which is removed in the destructor.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file below the directory and returns its path.
  std::string write(const std::string& name, const std::string& content) const;

 private:
  std::string path_;
};

std::string read_file(const std::string& path);

}  // namespace xrun::testing
