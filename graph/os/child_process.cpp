// The child reports through a pipe why it could not become the program; a program that starts closes the pipe. The
// environment is copied before the fork, since the child of a process with several threads may not allocate memory.
#include "graph/os/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xrun {
namespace {

using Clock = std::chrono::steady_clock;

int code_of(int status) { return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status); }

std::vector<char*> environment_without(const std::vector<std::string>& names) {
  std::vector<char*> kept;
  for (char** variable = ::environ; *variable != nullptr; ++variable) {
    const std::string_view text(*variable);
    if (std::ranges::find(names, text.substr(0, text.find('='))) == names.end()) {
      kept.push_back(*variable);
    }
  }
  kept.push_back(nullptr);
  return kept;
}

// Turns the child into the program.
[[noreturn]] void become(const std::vector<char*>& words, const std::vector<char*>& environment, const char* output,
                         pid_t parent, int fault_pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() == parent) {
    std::signal(SIGPIPE, SIG_DFL);  // xrun ignores both signals, and a started program would inherit that
    std::signal(SIGXFSZ, SIG_DFL);
    const int file = *output == 0 ? -1 : ::open(output, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (*output == 0 || (file >= 0 && ::dup2(file, STDOUT_FILENO) >= 0 && ::dup2(file, STDERR_FILENO) >= 0)) {
      ::execvpe(words[0], words.data(), environment.data());
    }
  }
  const int fault = errno;
  if (::write(fault_pipe, &fault, sizeof(fault)) < 0) {
    ::_exit(kSignalled - 1);
  }
  ::_exit(kSignalled - 1);
}

}  // namespace

ChildProcess::~ChildProcess() {
  if (const pid_t pid = pid_.load(); pid > 0) {
    ::kill(pid, SIGKILL);
    wait();
  }
}

int ChildProcess::start(const std::vector<std::string>& words, const ChildOptions& options) {
  std::vector<char*> arguments;
  for (const std::string& word : words) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  const std::vector<char*> environment = environment_without(options.without);
  std::array<int, 2> fault_pipe{};
  if (::pipe2(fault_pipe.data(), O_CLOEXEC) != 0) {
    return errno;
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    become(arguments, environment, options.output.c_str(), parent, fault_pipe[1]);
  }
  int fault = pid < 0 ? errno : 0;
  ::close(fault_pipe[1]);
  if (fault == 0 && ::read(fault_pipe[0], &fault, sizeof(fault)) != sizeof(fault)) {
    fault = 0;  // the program has started, which closed the pipe
  }
  ::close(fault_pipe[0]);
  if (fault != 0 && pid > 0) {
    ::waitpid(pid, nullptr, 0);
  }
  pid_.store(fault == 0 ? pid : 0);
  return fault;
}

int ChildProcess::wait() {
  int status = 0;
  while (::waitpid(pid_.load(), &status, 0) < 0 && errno == EINTR) {
  }
  pid_.store(0);
  return code_of(status);
}

std::optional<int> ChildProcess::wait_at_most(Seconds limit, StopFlag stop) {
  const auto end = Clock::now() + std::chrono::duration<double>(limit);
  int status = 0;
  while (::waitpid(pid_.load(), &status, WNOHANG) == 0) {
    if (Clock::now() > end || !check_stop(stop).ok()) {
      ::kill(pid_.load(), SIGKILL);
      wait();
      return std::nullopt;
    }
    ::usleep(20'000);
  }
  pid_.store(0);
  return code_of(status);
}

}  // namespace xrun
