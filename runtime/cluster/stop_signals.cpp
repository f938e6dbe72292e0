// Tests: tests/runtime/cli/commands/command_test.cpp
#include "runtime/cluster/stop_signals.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace xrun::cli {
namespace {

// These variables are global, since a signal handler has no other way to reach them.
std::atomic<bool> stop_requested{false};
std::atomic<int64_t> first_signal{0};  // time of the first signal in nanoseconds
std::atomic<int> event{-1};            // eventfd that the thread of StopSignals reads

constexpr uint64_t kRequest = 1;
constexpr uint64_t kEnd = uint64_t{1} << 32;  // added to the eventfd by the destructor to end the thread

constexpr int kTries = 16;

// Time in nanoseconds: a second signal within this time after the first is not a second request, because `timeout` and
// batch systems send a signal to a process and then again to its process group.
constexpr int64_t kSameRequest = 250'000'000;

void add_to_event(uint64_t what) {
  const int fd = event.load();
  if (fd >= 0) {
    // `stop_requested` is set even without an eventfd. A write that was interrupted is tried again, since the thread
    // that reads the eventfd waits for it.
    for (int tries = 0; tries < kTries && ::write(fd, &what, sizeof(what)) != sizeof(what); ++tries) {
    }
  }
}

extern "C" void on_signal(int number) {
  const int before = errno;
  struct timespec time {};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = time.tv_sec * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  if (!first_signal.compare_exchange_strong(first, now)) {
    if (now - first > kSameRequest) {
      ::_exit(128 + number);
    }
  } else {
    stop_requested.store(true);
    add_to_event(kRequest);
  }
  errno = before;
}

// Handles SIGPIPE: nobody reads the output any more. The run stops and saves, then reports the failed write.
extern "C" void on_lost_reader(int) { stop_requested.store(true); }

void install_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) {
    ::sigaction(number, &action, nullptr);
  }
  // Handles the loss of the terminal, unless the process ignores SIGHUP, for example under nohup.
  struct sigaction before {};
  if (::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) {
    ::sigaction(SIGHUP, &action, nullptr);
  }
  action.sa_handler = on_lost_reader;
  ::sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals(std::function<void()> on_request) {
  event = ::eventfd(0, EFD_CLOEXEC);
  install_handlers();
  if (event < 0) {
    return;
  }
  thread_ = std::thread([on_request = std::move(on_request)] {
    for (uint64_t what = 0; what < kEnd;) {
      if (::read(event, &what, sizeof(what)) != sizeof(what)) {
        continue;  // the read was interrupted by a signal
      }
      if (what % kEnd != 0) {
        on_request();
      }
    }
  });
}

StopSignals::~StopSignals() {
  if (thread_.joinable()) {
    add_to_event(kEnd);
    thread_.join();
  }
  const int fd = event.exchange(-1);
  if (fd >= 0) {
    ::close(fd);
  }
}

const std::atomic<bool>& StopSignals::requested() { return stop_requested; }

}  // namespace xrun::cli
