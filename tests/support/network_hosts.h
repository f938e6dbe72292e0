// Hosts of a cluster on this machine: network namespaces with links of their own (scripts/hosts.sh).
#pragma once

#include <string>
#include <unistd.h>
#include <vector>

#include "tests/support/command.h"

namespace xrun::testing {

class NetworkHosts {
 public:
  // Check `missing` before anything else.
  explicit NetworkHosts(int count) : name_("xrun-test" + std::to_string(::getpid())), count_(count) {
    if (::geteuid() != 0) {
      missing_ = "only root makes network namespaces";
    } else if (::access("/usr/sbin/ip", X_OK) != 0 && ::access("/sbin/ip", X_OK) != 0) {
      missing_ = "no `ip` (iproute2)";
      // Removes the namespaces of tests that were killed.
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

  // Why there are no hosts; empty: there are.
  const std::string& missing() const { return missing_; }
  std::string host(int index) const { return name_ + "-" + std::to_string(index); }

  // The words that begin a command on all hosts, one process each.
  std::vector<std::string> mpirun() const { return {script(), "mpirun", name_, std::to_string(count_)}; }
  std::vector<std::string> mpich() const { return {script(), "mpich", name_, std::to_string(count_)}; }
  // Any other act of the script.
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
