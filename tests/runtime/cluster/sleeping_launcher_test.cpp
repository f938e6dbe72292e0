#include "runtime/cluster/sleeping_launcher.h"

#include <atomic>
#include <csignal>
#include <ctime>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace xrun::cli {
namespace {

std::atomic<bool> asked_to_stop{false};
void on_stop(int) { asked_to_stop = true; }

// Waits for the signal that ends a launcher's sleep. Returns SI_USER if a process has sent SIGCHLD, CLD_EXITED if its
// rank has ended, and 0 if there was no signal. `children` holds only SIGCHLD, which is blocked.
int sleep_of_launcher(const sigset_t& children) {
  const struct timespec limit { .tv_sec = 20, .tv_nsec = 0 };
  siginfo_t about{};
  return ::sigtimedwait(&children, &about, &limit) == SIGCHLD ? about.si_code : 0;
}

// Starts a process with this name, which starts a rank and sleeps before it asks the rank to stop. Returns its exit
// code: 1 if the rank has woken it.
int exit_of_launcher(const char* name, const Launch& launch) {
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::prctl(PR_SET_NAME, name);
    ::signal(SIGTERM, on_stop);
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &children, nullptr);
    const pid_t rank = ::fork();
    if (rank == 0) {
      wake_launcher(launch, asked_to_stop);
      ::_exit(0);
    }
    const bool woken = sleep_of_launcher(children) == SI_USER;
    ::kill(rank, SIGTERM);
    ::waitpid(rank, nullptr, 0);
    ::_exit(woken ? 1 : 0);
  }
  int status = 0;
  ::waitpid(launcher, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SleepingLauncher, IsWokenByARank) {
  const Launch launch{.count = 2, .rank = 0, .mpis = {Mpi::kOpenMpi}};
  EXPECT_EQ(exit_of_launcher("mpirun", launch), 1);
  EXPECT_EQ(exit_of_launcher("orted", launch), 1);
}

TEST(SleepingLauncher, GetsNoSignalAfterItAskedTheRankToStop) {
  asked_to_stop = true;
  EXPECT_EQ(exit_of_launcher("mpirun", {.count = 2, .rank = 0, .mpis = {Mpi::kOpenMpi}}), 0);
  asked_to_stop = false;
}

TEST(SleepingLauncher, OtherParentsGetNoSignal) {
  EXPECT_EQ(exit_of_launcher("sh", {.count = 2, .rank = 0, .mpis = {Mpi::kOpenMpi}}), 0);
  EXPECT_EQ(exit_of_launcher("mpirun", {.count = 2, .rank = 0, .mpis = {Mpi::kMpich}}), 0);
  EXPECT_EQ(exit_of_launcher("mpirun", Launch()), 0);
}

}  // namespace
}  // namespace xrun::cli
