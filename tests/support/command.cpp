#include "tests/support/command.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xrun::testing {
namespace {

constexpr double kOrphans_s = 5;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) {
    out.push_back(word.data());
  }
  out.push_back(nullptr);
  return out;
}

// Runs xrun in the child process. Never returns.
[[noreturn]] void become_xrun(std::vector<std::string> words, const CommandOptions& options,
                              const std::string& directory, int out, int err) {
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  if (::chdir(directory.c_str()) != 0) {
    ::_exit(126);
  }
  if (options.file_size_limit >= 0) {
    const rlimit limit{static_cast<rlim_t>(options.file_size_limit), static_cast<rlim_t>(options.file_size_limit)};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  if (options.uid >= 0 &&
      (::setgid(static_cast<gid_t>(options.uid)) != 0 || ::setuid(static_cast<uid_t>(options.uid)) != 0)) {
    ::_exit(126);
  }
  std::vector<std::string> environment{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + directory};
  // `make test-tsan` sets UCX_MEM_EVENTS, without which ranks of MPICH crash (docs/decisions/0007).
  for (const char* kept :
       {"XDG_CACHE_HOME", "ASAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS", "UCX_MEM_EVENTS"}) {
    const bool given = std::ranges::any_of(options.environment, [&](const auto& one) { return one.first == kept; });
    if (const char* value = std::getenv(kept); value != nullptr && !given) {
      environment.push_back(std::string(kept) + "=" + value);
    }
  }
  for (const auto& [name, value] : options.environment) {
    environment.push_back(name + "=" + value);
  }
  auto arguments = pointers(words);
  auto variables = pointers(environment);
  ::execve(words[0].c_str(), arguments.data(), variables.data());
  ::_exit(127);
}

}  // namespace

CommandResult run_xrun(const std::vector<std::string>& words, const CommandOptions& options) {
  std::vector<std::string> all{options.binary.empty() ? std::string(XRUN_BINARY_DIR) + "/xrun" : options.binary};
  all.insert(all.end(), words.begin(), words.end());
  std::optional<TemporaryDirectory> fresh;
  std::string directory = options.directory;
  if (directory.empty()) {
    fresh.emplace();
    directory = fresh->path();
  }
  int out[2];
  int err[2];
  CommandResult result;
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    return result;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    become_xrun(all, options, directory, out[1], err[1]);
  }
  ::close(out[1]);
  ::close(err[1]);
  const double began = seconds_now();
  bool signalled = false;
  pollfd files[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  while (files[0].fd >= 0 || files[1].fd >= 0) {
    ::poll(files, 2, 10);
    for (int i = 0; i < 2; ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) {
        continue;
      }
      char buffer[65536];
      const ssize_t got = ::read(files[i].fd, buffer, sizeof buffer);
      if (got <= 0) {
        ::close(files[i].fd);
        files[i].fd = -1;
      } else {
        (i == 0 ? result.out : result.err).append(buffer, static_cast<size_t>(got));
      }
    }
    const double passed = seconds_now() - began;
    const auto said = [&](const std::string& text) { return text.find(options.signal_on) != std::string::npos; };
    if (options.signal != 0 && !signalled && (said(result.out) || said(result.err))) {
      ::kill(child, options.signal);
      signalled = true;
    }
    if (options.kill_after_s >= 0 && passed > options.kill_after_s) {
      ::kill(child, SIGKILL);
    }
    if (passed > options.timeout_s) {
      result.timed_out = true;
      ::kill(child, SIGKILL);
    }
    if (passed > options.timeout_s + kOrphans_s) {
      break;  // a process that xrun started still has the pipes open
    }
  }
  for (const pollfd& file : files) {
    if (file.fd >= 0) {
      ::close(file.fd);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = std::string(XRUN_BINARY_DIR) + "/tmp-XXXXXX";
  path_ = ::mkdtemp(name.data()) == nullptr ? std::string() : name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (!path_.empty()) {
    std::filesystem::remove_all(path_, ignored);
  }
}

std::string TemporaryDirectory::write(const std::string& name, const std::string& content) const {
  const std::filesystem::path path = std::filesystem::path(path_) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
  return path.string();
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

}  // namespace xrun::testing
