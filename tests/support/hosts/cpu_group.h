// A control group of the kernel that limits processor time. It can be made only if the file system of control groups is
// writable.
#pragma once

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>

namespace xrun::testing {

class CpuGroup {
 public:
  // Limits the processes of the group to `share` of one core in every 10 ms (0: no limit). They have priority over
  // other work on the machine.
  CpuGroup(const std::string& name, double share) {
    namespace fs = std::filesystem;
    constexpr int kPeriod = 10'000;  // microseconds
    const auto quota = static_cast<int>(share * kPeriod);
    for (const char* parent : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"}) {
      const fs::path path = fs::path(parent) / fmt::format("xrun-test-{}-{}", name, ::getpid());
      std::error_code fault;
      if (!fs::exists(parent) || !fs::create_directory(path, fault)) {
        continue;
      }
      path_ = path;
      const bool first = fs::exists(path / "cpu.cfs_quota_us");
      const bool made = first ? write("cpu.shares", "262144") && write("cpu.cfs_period_us", std::to_string(kPeriod)) &&
                                    (quota == 0 || write("cpu.cfs_quota_us", std::to_string(quota)))
                              : write("cpu.weight", "10000") &&
                                    (quota == 0 || write("cpu.max", fmt::format("{} {}", quota, kPeriod)));
      if (made) {
        return;
      }
      remove();
    }
  }
  ~CpuGroup() { remove(); }
  CpuGroup(const CpuGroup&) = delete;
  CpuGroup& operator=(const CpuGroup&) = delete;

  // Returns the folder of the group, or nullopt if it cannot be made.
  const std::optional<std::filesystem::path>& path() const { return path_; }
  // Returns a shell command that moves the shell into the group.
  std::string enter() const { return fmt::format("echo $$ > {}/cgroup.procs", path_->string()); }

 private:
  bool write(const char* file, const std::string& text) const {
    std::ofstream out(*path_ / file);
    out << text << std::flush;
    return out.good();
  }
  void remove() {
    std::error_code fault;
    for (int tries = 0; path_ && !std::filesystem::remove(*path_, fault) && tries < 100; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));  // its last process is about to end
    }
    path_.reset();
  }

  std::optional<std::filesystem::path> path_;
};

}  // namespace xrun::testing
