// Runs a Slurm cluster of one node on this machine: munged, slurmctld and slurmd with their own directory and ports.
// They are in a process namespace that ends with this object, or with the test process.
#pragma once

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <netinet/in.h>
#include <random>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/command.h"
#include "tests/support/hosts/launchers.h"

namespace xrun::testing {

class SlurmHost {
 public:
  // Starts Slurm. A test must check `missing` before anything else.
  SlurmHost() {
    if (::geteuid() != 0) {
      missing_ = "only root starts a Slurm of its own";
      return;
    }
    for (const char* program :
         {"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/bin/srun", "/usr/bin/sbatch"}) {
      if (!std::filesystem::exists(program)) {
        missing_ = fmt::format("no {} (munge, slurmctld, slurmd, slurm-client)", program);
        return;
      }
    }
    configure();
    start();
    wait_until_idle();
  }
  // The shell in the namespace ends at the end of its input. The kernel then kills all other processes of the namespace
  // before `unshare` ends.
  ~SlurmHost() {
    if (input_ >= 0) {
      ::close(input_);
    }
    if (namespace_ > 0) {
      ::waitpid(namespace_, nullptr, 0);
    }
  }
  SlurmHost(const SlurmHost&) = delete;
  SlurmHost& operator=(const SlurmHost&) = delete;

  // Returns why Slurm could not be started, or an empty string.
  const std::string& missing() const { return missing_; }

  // Returns the launcher srun with an MPI plugin: "pmix", "pmi2" or "none".
  Launcher srun(const std::string& mpi) const {
    return {.path = "/usr/bin/srun",
            .module = mpi == "pmi2" ? "libxrun_mpich.so" : "libxrun_mpi.so",
            .packages = mpi == "pmi2" ? "libmpich-dev" : "libopenmpi-dev",
            .rank = "SLURM_PROCID",
            .words = {"--mpi=" + mpi},
            .environment = {{"SLURM_CONF", path("slurm.conf")}}};
  }
  // Runs another program of Slurm, such as scancel.
  CommandResult run(const std::string& program, const std::vector<std::string>& words, CommandOptions options) const {
    options.binary = "/usr/bin/" + program;
    options.environment.emplace_back("SLURM_CONF", path("slurm.conf"));
    return run_xrun(words, options);
  }

 private:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

  // Returns a port that is free now.
  static int free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    const bool bound = ::bind(socket, any, size) == 0 && ::getsockname(socket, any, &size) == 0;
    ::close(socket);
    return bound ? ntohs(address.sin_port) : 0;
  }

  // Writes the configuration. Jobs share the node, and each job may have more tasks than there are cores. TmpFS is set
  // because the PMIx plugin makes directories there, whose names contain only the job number.
  void configure() {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    const std::string name = std::string(host).substr(0, std::string(host).find('.'));
    const std::string text = fmt::format(R"(ClusterName=xrun
SlurmctldHost={0}(127.0.0.1)
SlurmctldPort={1}
NodeName={0} NodeAddr=127.0.0.1 Port={2} CPUs=8 State=UNKNOWN
PartitionName=all Nodes={0} Default=YES OverSubscribe=FORCE:8
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={3}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmdParameters=config_overrides
SelectType=select/linear
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
StateSaveLocation={3}/state
SlurmdSpoolDir={3}/spool
TmpFS={3}
SlurmctldPidFile={3}/slurmctld.pid
SlurmdPidFile={3}/slurmd.pid
)",
                                         name, free_port(), free_port(), directory_.path());
    directory_.write("slurm.conf", text);
    std::filesystem::create_directories(path("state"));
    std::filesystem::create_directories(path("spool"));
    std::random_device random;
    std::string key;
    for (int i = 0; i < 64; ++i) {
      key += static_cast<char>('a' + random() % 26);
    }
    directory_.write("key", key);
    std::filesystem::permissions(path("key"), std::filesystem::perms::owner_read);
  }

  void start() {
    const std::string script =
        "(munged --force --foreground --key-file=key --socket=$PWD/munge.socket --pid-file=$PWD/munged.pid "
        "--seed-file=$PWD/seed --num-threads=2 & "
        "until [ -S munge.socket ]; do sleep 0.02; done; slurmctld -D & slurmd -D & wait) > log 2>&1 < /dev/null & "
        "read end";
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      missing_ = "no pipe can be made";
      return;
    }
    namespace_ = ::fork();
    if (namespace_ == 0) {
      ::dup2(ends[0], STDIN_FILENO);
      ::setenv("SLURM_CONF", path("slurm.conf").c_str(), 1);
      ::setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
      if (::chdir(directory_.path().c_str()) == 0) {
        ::execl("/usr/bin/unshare", "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", script.c_str(), nullptr);
      }
      ::_exit(127);
    }
    ::close(ends[0]);
    input_ = ends[1];
  }

  void wait_until_idle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15);
    while (missing_.empty() && run("sinfo", {"-h", "-o", "%T"}, {.timeout_s = 5}).out != "idle\n") {
      if (::waitpid(namespace_, nullptr, WNOHANG) != 0) {
        namespace_ = -1;
        missing_ = "no process namespace can be made (unshare)";
      } else if (std::chrono::steady_clock::now() > end) {
        missing_ = "Slurm does not start: " + read_file(path("log"));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }

  TemporaryDirectory directory_;
  std::string missing_;
  pid_t namespace_ = -1;  // the `unshare` process
  int input_ = -1;        // input of the shell in the namespace
};

}  // namespace xrun::testing
