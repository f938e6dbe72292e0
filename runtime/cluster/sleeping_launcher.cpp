#include "runtime/cluster/sleeping_launcher.h"

#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>

#include "runtime/cluster/stuck_launcher.h"

namespace xrun::cli {

void wake_launcher(const Launch& launch, const std::atomic<bool>& asked_to_stop) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLimit = std::chrono::milliseconds(100);
  constexpr auto kBetween = std::chrono::milliseconds(2);
  if (launch.mpis.empty() || launch.mpis[0] != Mpi::kOpenMpi) {
    return;
  }
  const pid_t parent = ::getppid();
  std::string name;
  std::ifstream(fmt::format("/proc/{}/comm", parent)) >> name;
  if (!starts_ranks(name)) {
    return;
  }
  const auto end = Clock::now() + kLimit;
  // If the launcher has ended, this process has another parent.
  while (!asked_to_stop.load() && Clock::now() < end && ::getppid() == parent && ::kill(parent, SIGCHLD) == 0) {
    std::this_thread::sleep_for(kBetween);
  }
}

}  // namespace xrun::cli
