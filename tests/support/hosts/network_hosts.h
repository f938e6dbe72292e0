// Hosts of a cluster on this machine: network namespaces with links of their own (scripts/hosts.sh).
#pragma once

#include <string>
#include <unistd.h>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {

class NetworkHosts {
 public:
  // Makes the hosts. A test must check `missing` before anything else.
  explicit NetworkHosts(int count) : name_("xrun-test" + std::to_string(::getpid())), count_(count) {
    if (::geteuid() != 0) {
      missing_ = "only root makes network namespaces";
    } else if (::access("/usr/sbin/ip", X_OK) != 0 && ::access("/sbin/ip", X_OK) != 0) {
      missing_ = "no `ip` (iproute2)";
      // Removes the namespaces that killed tests left behind.
    } else if (act({"sweep", "xrun-test"}).exit != 0) {
      missing_ = "network namespaces cannot be listed";
    } else if (const CommandResult made = act({"up", name_, std::to_string(count)}); made.exit != 0) {
      missing_ = "no network namespaces can be made: " + made.err;
    }
  }
  ~NetworkHosts() {
    if (::geteuid() == 0) {
      act({"down", name_});
    }
  }
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;

  // Returns why the hosts could not be made, or an empty string.
  const std::string& missing() const { return missing_; }
  std::string host(int index) const { return name_ + "-" + std::to_string(index); }

  // Returns the words that start a command with one process on each host.
  std::vector<std::string> mpirun() const { return {script(), "mpirun", name_, std::to_string(count_)}; }
  std::vector<std::string> mpich() const { return {script(), "mpich", name_, std::to_string(count_)}; }
  // Runs scripts/hosts.sh with these words.
  static CommandResult act(const std::vector<std::string>& words) {
    return run_xrun(words, {.binary = script(), .timeout_s = 30});
  }

 private:
  static std::string script() { return std::string(XRUN_SOURCE_DIR) + "/scripts/hosts.sh"; }

  std::string name_;
  int count_;
  std::string missing_;
};

}  // namespace xrun::testing
